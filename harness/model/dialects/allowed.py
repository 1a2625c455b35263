"""What of a request is passed on: only fields whose cost its own bytes and its cap bound.

A known harmless field goes on as it is. One that brings cost or context from elsewhere, such as an earlier response, a
remote picture or a search on the server, is refused by name. All others are left out: what an upstream never sees costs
nothing there. Clients send some of those as a matter of course (a service tier), and go on working without.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.model.dialects.fields import rows, table
from harness.records import Json

# one picture of a few bytes can be many tokens: the most that one is billed as, by the dearest rule that is published
IMAGE_TOKENS = 50_000
# what some servers put before the tools of a request, in their own words
TOOLS_TOKENS = 1_000


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SAMPLING = _names(
    "temperature top_p top_k min_p typical_p tfs_z seed stop stop_token_ids presence_penalty frequency_penalty "
    "repeat_penalty repetition_penalty repeat_last_n length_penalty penalize_nl mirostat mirostat_tau mirostat_eta "
    "dynatemp_range dynatemp_exponent dry_multiplier dry_base dry_allowed_length dry_penalty_last_n "
    "dry_sequence_breakers xtc_probability xtc_threshold top_n_sigma samplers logit_bias logprobs top_logprobs n_probs "
    "min_tokens ignore_eos n_keep cache_prompt id_slot cache_salt skip_special_tokens spaces_between_special_tokens "
    "include_stop_str_in_output allowed_token_ids bad_words truncate_prompt_tokens add_special_tokens "
    "response_format grammar json_schema guided_json guided_regex guided_choice guided_grammar structured_outputs "
    "guided_decoding_backend guided_whitespace_pattern return_tokens_as_token_ids timings_per_token"
)
_ACCOUNT = _names("user metadata store safety_identifier prompt_cache_key prompt_cache_retention")
CHAT = (
    _SAMPLING
    | _ACCOUNT
    | _names(
        "model messages stream stream_options max_tokens max_completion_tokens n tools tool_choice parallel_tool_calls "
        "functions function_call reasoning_effort reasoning verbosity modalities thinking enable_thinking "
        "thinking_budget think include_reasoning reasoning_format reasoning_split parse_tool_calls usage "
        "chat_template_kwargs add_generation_prompt continue_final_message echo"
    )
)
COMPLETIONS = (
    _SAMPLING | _ACCOUNT | _names("model prompt suffix echo stream stream_options max_tokens n best_of prompt_logprobs")
)
EMBEDDINGS = _names("model input encoding_format dimensions user truncate_prompt_tokens input_type task")
RESPONSES = (
    _SAMPLING
    | _ACCOUNT
    | _names(
        "model input instructions stream stream_options max_output_tokens tools tool_choice parallel_tool_calls text "
        "reasoning include truncation client_metadata"
    )
)
MESSAGES = _names(
    "model messages system max_tokens stream temperature top_p top_k stop_sequences metadata thinking tools "
    "tool_choice output_config output_format cache_control"
)
GEMINI = _names("contents systemInstruction tools toolConfig safetySettings generationConfig labels")
GENERATION = _names(
    "temperature topP topK maxOutputTokens candidateCount stopSequences seed presencePenalty frequencyPenalty "
    "responseMimeType responseSchema responseJsonSchema responseLogprobs logprobs thinkingConfig mediaResolution "
    "responseModalities"
)
_ELSEWHERE = _names(
    "previous_response_id conversation prompt background web_search_options audio plugins models mcp_servers container "
    "cachedContent prompt_embeds n_predict max_new_tokens"
)
_TEXT = _names("text input_text output_text refusal thinking reasoning reasoning_text summary_text")


def kept(body: Mapping[str, Json], allowed: frozenset[str]) -> dict[str, Json]:
    """What of `body` goes on. Raises ValueError that names a field which brings cost from elsewhere."""
    for name in _ELSEWHERE - allowed:
        if body.get(name) not in (None, False, [], {}):
            raise ValueError(f"{name} cannot be metered here; leave it out")
    laid = {name: value for name, value in body.items() if name in allowed}
    if not isinstance(body.get("stream", False), bool | None):
        raise ValueError("stream must be true or false")  # noqa: TRY004 - one error for everything malformed
    modes = laid.get("modalities", laid.get("responseModalities"))
    if modes is not None and (not isinstance(modes, list) or any(str(one).lower() != "text" for one in modes)):
        raise ValueError("only text can be asked for")
    return laid


def camel(found: Mapping[str, Json]) -> dict[str, Json]:
    """`found` with its fields spelled one way, for servers that know two. Raises ValueError for one spelled twice."""
    laid: dict[str, Json] = {}
    for name, value in found.items():
        head, *rest = name.lstrip("_").split("_")
        one = head + "".join(part[:1].upper() + part[1:] for part in rest)
        if one in laid:
            raise ValueError(f"{one} is given twice")
        laid[one] = value
    return laid


def functions_only(tools: Json, local: tuple[str, ...]) -> None:
    """Raises ValueError for a tool that the upstream would run; `local` ones begin so."""
    for tool in rows(tools):
        kind = tool.get("type", "function")
        if not isinstance(kind, str) or not kind.startswith(local):
            raise ValueError(f"the tool {str(kind)[:60]} runs on the server and cannot be metered here")


def parts_tokens(content: Json) -> int:
    """Tokens that the pictures among the parts of `content` may be beyond its bytes.

    Raises ValueError for a part that points elsewhere, or whose tokens nothing bounds.
    """
    if isinstance(content, dict):
        return _part(content)
    return sum(_part(part) for part in rows(content))


def _part(part: Mapping[str, Json]) -> int:
    kind = part.get("type")
    if kind in _TEXT or kind in {"redacted_thinking", "tool_use", "input_audio", "tool_reference", "search_result"}:
        return 0
    if kind == "tool_result":
        return parts_tokens(part.get("content"))
    if kind in {"image_url", "input_image"}:
        url = part.get("image_url")
        url = table(url).get("url") if isinstance(url, dict) else url
        if isinstance(url, str) and url.startswith("data:") and part.get("file_id") is None:
            return IMAGE_TOKENS
    if kind is None and "stdout" in part:
        return 0
    source = table(part.get("source"))
    if kind == "image" and source.get("type") == "base64":
        return IMAGE_TOKENS
    if kind == "document" and source.get("type") in {"text", "content"}:
        return parts_tokens(source.get("content"))
    raise ValueError(
        f"a part of type {str(kind)[:60]} cannot be metered here, unless as text or as a picture's own data"
    )


def gemini_tokens(contents: Json) -> int:
    """The same for Gemini's parts."""
    if any(not isinstance(content.get("parts", []), list) for content in rows(contents)):
        raise ValueError("parts must be a list")
    return sum(_gemini_part(camel(part)) for content in rows(contents) for part in rows(camel(content).get("parts")))


_PARTS = _names(
    "text thought thoughtSignature inlineData functionCall functionResponse executableCode codeExecutionResult"
)


def _gemini_part(part: Mapping[str, Json]) -> int:
    for name in part:
        if name not in _PARTS:
            raise ValueError(f"{name[:60]} in a part cannot be metered here")
    nested = camel(table(part.get("functionResponse"))).get("parts")
    more = sum(_gemini_part(camel(one)) for one in rows(nested))
    if "inlineData" in part:
        media = str(camel(table(part["inlineData"])).get("mimeType", ""))
        if not media.startswith(("image/", "audio/", "text/")):
            raise ValueError(f"data of type {media[:60]} cannot be metered here")
        more += IMAGE_TOKENS
    return more


_STAND_ELSEWHERE = _names(
    "item_reference image_generation_call computer_call_output code_interpreter_call file_search_call mcp_call"
)


def items(entries: Json) -> Iterator[Mapping[str, Json]]:
    """The items of a Responses request. Raises ValueError for one that stands elsewhere."""
    for item in rows(entries):
        if item.get("type") in _STAND_ELSEWHERE or ("type" not in item and "role" not in item):
            raise ValueError(f"an item of type {str(item.get('type'))[:60]} cannot be metered here")
        yield item


def offered(tools: Json) -> list[Json]:
    """The tools of a Responses request that its caller runs.

    Clients offer the server's own as a matter of course; a model does without what it is not offered.
    """
    if not isinstance(tools, list):
        raise ValueError("tools must be a list")  # noqa: TRY004 - one error for everything malformed
    found: list[Json] = []
    for tool in tools:
        if not isinstance(tool, dict) or not str(tool.get("type")).startswith(_RUN_HERE):
            continue
        if table(tool.get("environment")).get("type", "local") != "local":
            continue
        found.append({**tool, "tools": offered(tool["tools"])} if "tools" in tool else tool)
    return found


_RUN_HERE = ("function", "custom", "namespace", "local_shell", "shell", "apply_patch")


def briefly_cached(blocks: Json) -> Json:
    """`blocks` without lifetimes of caches: a longer one is written at twice the price."""
    if not isinstance(blocks, list):
        return blocks
    found: list[Json] = []
    for block in blocks:
        if isinstance(block, dict):
            laid = dict(block)
            if "ttl" in table(laid.get("cache_control")):
                laid["cache_control"] = {"type": "ephemeral"}
            if isinstance(laid.get("content"), list):
                laid["content"] = briefly_cached(laid["content"])
            found.append(laid)
        else:
            found.append(block)
    return found
