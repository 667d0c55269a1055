"""Answer /healthz, /readyz and /metrics on a local port, without secrets; labels of metrics have configured names."""

import re
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from socketserver import TCPServer
from threading import Thread, Timer
from typing import Any, ClassVar

from msgspec import Struct
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.process_collector import ProcessCollector

from cachewatch import __version__
from cachewatch.config.schedules_and_quiet_times import quiet_until
from cachewatch.errors import CachewatchError
from cachewatch.operators.status_problems_explanations import ChannelStatus, find_problems, read_status
from cachewatch.report.words import number
from cachewatch.service.context_and_source_copies import Context
from cachewatch.store import health_and_alerts as health
from cachewatch.store.delivery_queue_and_order import DeliveryState
from cachewatch.store.digests_and_holds import DigestState
from cachewatch.store.health_and_alerts import AlertKind, Counter

_SECONDS = 5
# For a whole request and its answer: a client that sends a byte now and then never exceeds _SECONDS.
_LONGEST_SECONDS = 15
_PORT = re.compile(r":[0-9]*\Z")


class MonitorPage(Struct, frozen=True):
    """The answer to a request."""

    status: int
    text: str
    content_type: str = "text/plain; charset=utf-8"


Pages = Mapping[str, Callable[[], MonitorPage]]  # by path


class MonitorServer(ThreadingHTTPServer):
    """A small HTTP server that starts when it is created, and answers each request in a thread."""

    def __init__(self, host: str, port: int, pages: Pages) -> None:
        address = host.removeprefix("[").removesuffix("]")
        found = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        where: Any = found[-1]
        self.address_family = found[0]
        is_local = ip_address(where[0]).is_loopback
        super().__init__(where, type("Handler", (_Handler,), {"pages": pages, "name": host, "is_local": is_local}))
        Thread(target=self.serve_forever, name="monitor", daemon=True).start()

    def stop(self) -> None:
        """Stop answering, and close the socket."""
        self.shutdown()
        self.server_close()

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer a request; the connection is shut down if that takes longer than 15 seconds."""

        def cut() -> None:
            with suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)

        end = Timer(_LONGEST_SECONDS, cut)
        end.daemon = True
        end.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            end.cancel()

    def server_bind(self) -> None:
        """Bind the socket without looking up this host's name, which takes long if the resolver is broken."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing: a client that disconnects is no error."""


class _Handler(BaseHTTPRequestHandler):
    pages: ClassVar[Pages]
    name: ClassVar[str]
    is_local: ClassVar[bool]
    timeout = _SECONDS
    server_version = "cachewatch"
    sys_version = ""

    def do_GET(self) -> None:
        page = self._page()
        body = page.text.encode()
        self.send_response(page.status)
        self.send_header("Content-Type", page.content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815  http.server's name for it

    def _page(self) -> MonitorPage:
        page = self.pages.get(self.path.partition("?")[0])
        if page is None:
            return MonitorPage(404, "not found\n")
        # A web page of another site must not read this one through a host name that the site controls.
        host = _PORT.sub("", self.headers.get("Host", ""))
        if self.is_local and host not in (self.name, "localhost", "127.0.0.1", "[::1]"):
            return MonitorPage(421, "not this host\n")
        return page()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  http.server's name for it
        pass


# The help text and labels of each series, as they are printed; those that end in _total are counters, others gauges.
SERIES: Mapping[str, tuple[str, ...]] = {
    "cachewatch_build_info": ("Always 1; the version is a label.", "version"),
    "cachewatch_ready": ("1 if /readyz finds no problem, else 0.",),
    "cachewatch_problems": ("Problems that /readyz finds, without warnings.",),
    "cachewatch_last_tick_timestamp_seconds": ("When the daemon last looked for digests that are due.",),
    "cachewatch_source_poll_interval_seconds": ("The configured interval between polls of a source.", "source"),
    "cachewatch_source_last_poll_timestamp_seconds": ("When a source was polled last; 0 if never.", "source"),
    "cachewatch_source_last_success_timestamp_seconds": ("When a source last answered; 0 if never.", "source"),
    "cachewatch_source_revision_timestamp_seconds": ("When the newest revision was published, if known.", "source"),
    "cachewatch_source_failures": ("Failed polls of a source in a row.", "source"),
    "cachewatch_poll_failures_total": ("Failed polls of a source.", "source"),
    "cachewatch_stream_late_seconds": (
        "How long ago the digest of a schedule was due, if it is not made.",
        "subscription",
        "stream",
    ),
    "cachewatch_digests_total": ("Digests that were made, by what became of them at first.", "subscription", "result"),
    "cachewatch_held_digests": ("Digests that wait for an operator.",),
    "cachewatch_outbox_rows": ("Stored deliveries of a channel, by state.", "channel", "state"),
    "cachewatch_outbox_oldest_seconds": ("Age of the oldest delivery of a channel that is open.", "channel"),
    "cachewatch_outbox_overdue_seconds": ("How long ago a delivery of a channel should have been sent.", "channel"),
    "cachewatch_deliveries_total": ("Attempts to deliver through a channel, by result.", "channel", "result"),
    "cachewatch_channel_blocked": ("1 while a channel is blocked because it does not work, else 0.", "channel"),
    "cachewatch_channel_failures": ("Failed attempts through a channel in a row.", "channel"),
    "cachewatch_suppressed_addresses": ("Addresses of a channel that are suppressed.", "channel"),
    "cachewatch_open_alerts": ("Problems and warnings that `status --check` lists, by kind.", "kind"),
    "cachewatch_job_failures_total": ("Failures of a job of the daemon since it started.", "job"),
    "cachewatch_failing_jobs": ("Jobs of the daemon that failed three times in a row or more.",),
    "cachewatch_leader": ("1 if this daemon works on the state, 0 if it waits for another host.",),
}
# The possible states of a new digest, and the possible results of an attempt to deliver.
_DIGESTS = (DigestState.READY, DigestState.HELD)
_ATTEMPTS = (DeliveryState.SENT, DeliveryState.DEFERRED, DeliveryState.QUEUED, DeliveryState.DEAD)
Sample = tuple[str, Mapping[str, str], float]  # name of the series, labels, value


class DaemonStatus(Struct, frozen=True):
    """Facts about the running daemon that are not stored in the database."""

    tick: float  # when the daemon last looked for due digests, in seconds since 1970
    job_failures: Mapping[str, int]  # since the start, by job
    failing_jobs: int
    is_leader: bool  # works on the state, and is no standby


def _samples(context: Context, daemon: DaemonStatus) -> Iterator[Sample]:
    config, status, now = context.config, read_status(context), context.clock()
    problems = find_problems(status, config, now)
    yield "cachewatch_build_info", {"version": __version__}, 1
    yield "cachewatch_ready", {}, problems.is_ready
    yield "cachewatch_problems", {}, len(problems.problems)
    yield "cachewatch_held_digests", {}, len(status.held)
    for kind in AlertKind:
        yield "cachewatch_open_alerts", {"kind": kind}, sum(each.kind is kind for each in problems.all)
    for source in status.sources:
        labels = {"source": source.name}
        yield "cachewatch_source_poll_interval_seconds", labels, config.sources[source.name].poll.every.total_seconds()
        for name, moment in (("last_poll", source.polled_at), ("last_success", source.succeeded_at)):
            yield f"cachewatch_source_{name}_timestamp_seconds", labels, moment.timestamp() if moment else 0
        if source.revision_time is not None:
            yield "cachewatch_source_revision_timestamp_seconds", labels, source.revision_time.timestamp()
        yield "cachewatch_source_failures", labels, source.failures
    for stream in status.streams:
        if stream.due is not None:
            late = max(0.0, (now - quiet_until(config.quiet, stream.due, config.timezone)).total_seconds())
            yield "cachewatch_stream_late_seconds", {"subscription": stream.subscription, "stream": stream.stream}, late
    for channel in status.channels:
        yield from _of_channel(channel, now)
    yield "cachewatch_last_tick_timestamp_seconds", {}, daemon.tick
    for job, count in sorted(daemon.job_failures.items()):
        yield "cachewatch_job_failures_total", {"job": job}, count
    yield "cachewatch_failing_jobs", {}, daemon.failing_jobs
    yield "cachewatch_leader", {}, daemon.is_leader
    # Stored counters; those of configured objects that were never counted are 0.
    names = [Counter.of("poll_failures_total", source=name) for name in config.sources]
    names += [Counter.of("digests_total", subscription=n, result=r) for n in config.subscriptions for r in _DIGESTS]
    names += [Counter.of("deliveries_total", channel=n, result=r) for n in config.channels for r in _ATTEMPTS]
    with context.database.read() as connection:
        counters = dict.fromkeys(names, 0.0) | health.counters(connection)
    for counter, value in counters.items():
        yield f"cachewatch_{counter.name}", dict(counter.labels), value


def _of_channel(channel: ChannelStatus, now: datetime) -> Iterator[Sample]:
    labels = {"channel": channel.health.name}
    for state in DeliveryState:
        yield "cachewatch_outbox_rows", {**labels, "state": state}, channel.queue.get(state, 0)
    for name, moment in (("oldest", channel.oldest), ("overdue", channel.due_since)):
        age = (now - moment).total_seconds() if moment else 0
        yield f"cachewatch_outbox_{name}_seconds", labels, max(0.0, age)
    yield "cachewatch_channel_blocked", labels, channel.health.is_blocked(now)
    yield "cachewatch_channel_failures", labels, channel.health.failures
    yield "cachewatch_suppressed_addresses", labels, channel.suppressed


class _Figures(Struct):
    samples: Iterable[Sample]

    def collect(self) -> list[Metric]:
        families: dict[str, Any] = {
            name: (CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily)(name, about, labels=labels)
            for name, (about, *labels) in SERIES.items()
        }
        for name, values, value in self.samples:
            # An older or newer version may have stored counters that this one does not know.
            if name in SERIES and values.keys() == set(SERIES[name][1:]):
                families[name].add_metric([values[label] for label in SERIES[name][1:]], value)
        return [*ProcessCollector(registry=None).collect(), *families.values()]


def readyz(context: Context, health: MonitorPage) -> MonitorPage:
    """Return the page /readyz with one problem a line; a problem in `health`, the page /healthz, comes first."""
    try:
        problems = find_problems(read_status(context), context.config, context.clock())
    except CachewatchError as error:
        return MonitorPage(503, f"{error}\n")
    lines = [*([health.text] if health.status != 200 else []), *(f"{problem.what}\n" for problem in problems.problems)]
    status, text = (503, "".join(lines)) if lines else (200, "ready\n")
    if problems.warnings:
        text += f"{number(len(problems.warnings), 'warning')}: see `cachewatch status --check`\n"
    return MonitorPage(status, text)


def figures(context: Context, daemon: DaemonStatus) -> MonitorPage:
    """Return the page /metrics, in the text format of Prometheus; with status 503 if the state cannot be read."""
    try:
        text = generate_latest(_Figures(_samples(context, daemon))).decode()
    except CachewatchError as error:
        return MonitorPage(503, f"{error}\n")
    return MonitorPage(200, text, "text/plain; version=0.0.4; charset=utf-8")
