"""`[policy.telemetry]`: who else is told what a run does."""

from __future__ import annotations

import re

from pydantic import field_validator

from harness.policy.strict import Strict


class TelemetryPolicy(Strict):
    """Who else is told what a run does; nobody, by default, and no prompt or reply ever.

    `otlp` sends spans to an OpenTelemetry collector: its base URL, or true for the environment's
    OTEL_EXPORTER_OTLP_ENDPOINT. `tracker` is module:function, or an entry point of `harness.trackers`.
    """

    otlp: bool | str = False
    tracker: str = ""

    @field_validator("otlp")
    @classmethod
    def _address(cls, value: bool | str) -> bool | str:
        if isinstance(value, str) and not re.fullmatch(r"https?://[^\s/@]+(/[^\s]*)?", value):
            raise ValueError(
                "must be true, or an http(s) address without a password in it (keys go in OTEL_EXPORTER_OTLP_HEADERS)"
            )
        return value
