"""Counts and times of requests, as Prometheus reads them."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping

ADDRESSES = ("/predict", "/prompt", "/healthz", "/metrics", "/docs", "/openapi.json", "/")
SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)  # bounds of the histogram
MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """What requests came to so far. One event loop uses it, without a lock."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, int]] = Counter()  # of each address and status
        self.rejected: Counter[str] = Counter({"busy": 0, "host": 0, "token": 0})
        self._times = [0] * (len(SECONDS) + 1)  # predictions in each interval, the last is open
        self._sum = 0.0

    def record(self, path: str, status: int, seconds: float) -> None:
        """Counts a request whose response begins."""
        self.requests[path if path in ADDRESSES else "other", status] += 1
        if path == "/predict":
            self._times[bisect_left(SECONDS, seconds)] += 1
            self._sum += seconds

    def text(self, gauges: Mapping[str, tuple[str, int]], counts: Mapping[str, int]) -> str:
        """Returns everything in Prometheus' text format.

        `gauges` are further values by name, with their help; `counts` further counters.
        """
        lines = [*self._request_lines(), *self._time_lines()]
        for name, value in counts.items():
            lines += [f"# TYPE ipl_{name}_total counter", f"ipl_{name}_total {value}"]
        for name, (text, value) in gauges.items():
            lines += [
                f"# HELP ipl_{name} {text}",
                f"# TYPE ipl_{name} gauge",
                f"ipl_{name} {value}",
            ]
        return "\n".join(lines) + "\n"

    def _request_lines(self) -> Iterator[str]:
        yield "# HELP ipl_requests_total Requests by address and status."
        yield "# TYPE ipl_requests_total counter"
        for (path, status), count in sorted(self.requests.items()):
            yield f'ipl_requests_total{{path="{path}",status="{status}"}} {count}'
        yield "# HELP ipl_rejected_total Requests refused unread: too many at once, host, token."
        yield "# TYPE ipl_rejected_total counter"
        for reason, count in sorted(self.rejected.items()):
            yield f'ipl_rejected_total{{reason="{reason}"}} {count}'

    def _time_lines(self) -> Iterator[str]:
        yield "# HELP ipl_predict_seconds Time from the head of POST /predict to its response."
        yield "# TYPE ipl_predict_seconds histogram"
        total = 0
        for bound, count in zip((*map(str, SECONDS), "+Inf"), self._times, strict=True):
            total += count
            yield f'ipl_predict_seconds_bucket{{le="{bound}"}} {total}'
        yield f"ipl_predict_seconds_sum {self._sum:.6f}"
        yield f"ipl_predict_seconds_count {total}"
