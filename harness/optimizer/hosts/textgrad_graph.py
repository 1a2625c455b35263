"""The textgrad side of `hosts.textgrad`: the program and its loss as a graph, the run's models as an engine."""

# pyright: basic
# the package's objects have no types where this is checked, and it is not installed there
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import textgrad  # pyright: ignore  # an extra
from textgrad.autograd.string_based_ops import StringBasedFunction  # pyright: ignore
from textgrad.engine import EngineLM  # pyright: ignore

from harness.optimizer import wording
from harness.optimizer.admit import unwrap
from harness.optimizer.base import Example, Result, Role, Slot, Texts
from harness.optimizer.frame import frame_of
from harness.optimizer.hosts.bridge import Bridge, named
from harness.optimizer.hosts.quiet import quiet
from harness.optimizer.hosts.textgrad import TextgradPackageSettings
from harness.optimizer.slots import editable

api = cast("Any", textgrad)
Node = cast("Any", StringBasedFunction)


class Engine(EngineLM):  # pyright: ignore[reportUntypedBaseClass]
    """The proposing model as textgrad's engine: every call is the run's."""

    def __init__(self, bridge: Bridge, purpose: str) -> None:
        self.bridge, self.purpose, self.model_string = bridge, purpose, f"strop/{purpose}"

    def generate(self, prompt: Any, system_prompt: str | None = None, **more: object) -> str:
        """The reply; empty when there is none."""
        text = prompt if isinstance(prompt, str) else "\n".join(str(part) for part in prompt)
        asked = [("system", system_prompt)] if system_prompt else []
        return self.bridge.chat(Role.PROPOSES, [*asked, ("user", text)], self.purpose)

    def __call__(self, prompt: Any, system_prompt: str | None = None, **more: object) -> str:
        return self.generate(prompt, system_prompt, **more)


class Text(api.Variable):
    """A slot's text. textgrad keeps gradients in a set, whose order differs from process to process; here they keep
    the order they came in."""

    @property
    def gradients(self) -> Any:
        return self._ordered

    @gradients.setter
    def gradients(self, value: Any) -> None:
        self._ordered = _Ordered.fromkeys(value)


class _Ordered(dict[Any, None]):
    def add(self, item: Any) -> None:
        self[item] = None


def descended(
    bridge: Bridge, settings: TextgradPackageSettings, texts: Texts, batch: Sequence[Example], results: Sequence[Result]
) -> Texts | None:
    """The texts after one step of textgrad's descent; None when its optimizer could not read the model's reply."""
    slots = editable(bridge.host)
    frames = {slot.name: frame_of(slot) for slot in slots}
    variables = {slot.name: _variable(slot, frames[slot.name].within(texts[slot.name])) for slot in slots}
    with quiet(), bridge.reachable(Role.PROPOSES):
        own = named(settings.engine, "engine")() if settings.engine else None
        backward, editor = (Engine(bridge, purpose) if own is None else own for purpose in ("backward", "rewrite"))
        for example, result in zip(batch, results, strict=True):
            _loss(variables, example, result).backward(engine=backward)
        descent = api.TextualGradientDescent(
            parameters=list(variables.values()), engine=editor, constraints=list(settings.constraints)
        )
        try:
            descent.step()
        except IndexError:  # textgrad's own word for a reply without its tags
            return None
    return {
        **texts,
        **{name: frames[name].around(unwrap(str(variable.value))) for name, variable in variables.items()},
    }


def _variable(slot: Slot, text: str) -> Any:
    role = f"instruction of the module {slot.module or slot.name} of a program"
    return Text(text, requires_grad=True, role_description=role)


def _loss(variables: dict[str, Any], example: Example, result: Result) -> Any:
    """The loss of one rollout: the program's reply to one input, and what the scorer says of it."""
    given = result.trace[-1].given if result.trace else wording.feedback([result])
    said = result.trace[-1].said if result.trace else ""
    asked = api.Variable(given or example.key, requires_grad=False, role_description="input to the program")
    program = Node(lambda **_: said or "(nothing)", "the program: it follows its instructions on an input")
    reply = program(inputs={**variables, "input": asked}, response_role_description="reply of the program")
    scorer = Node(lambda **_: wording.feedback([result]), "a scorer: it says how good the reply is, and what is wrong")
    return scorer(inputs={"reply": reply}, response_role_description="the score and what is said about the reply")
