"""Metrics as Prometheus reads them. The only module that talks to prometheus_client; it is loaded when somebody asks."""

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import choose_encoder, generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from cachewatch.notify.metrics import SERIES, Sample, Series

_PLAIN = "text/plain; version=0.0.4; charset=utf-8"

Family = CounterMetricFamily | GaugeMetricFamily


class _Samples(Collector):
    """Gives the library what was measured just now."""

    def __init__(self, samples: Iterable[Sample]) -> None:
        self._samples = samples

    def collect(self) -> list[Family]:
        families = {name: _family(name, series) for name, series in SERIES.items()}
        for name, labels, value in self._samples:
            # An older or newer version may have counted what this one does not know.
            if name in SERIES and labels.keys() == set(SERIES[name].labels):
                families[name].add_metric([labels[label] for label in SERIES[name].labels], value)
        return list(families.values())


def _family(name: str, series: Series) -> Family:
    kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
    return kind(name, series.about, labels=series.labels)


def expose(samples: Iterable[Sample], accept: str) -> tuple[str, str]:
    """Return the text and its content type: OpenMetrics if `accept`, a header of HTTP, asks for it."""
    # A registry of our own: the library's has figures of this process that we give ourselves.
    registry = CollectorRegistry()
    registry.register(_Samples(samples))
    try:
        encode, content_type = choose_encoder(accept if accept.isprintable() else "")
    except (TypeError, ValueError):  # a version that is none
        encode, content_type = generate_latest, _PLAIN
    return encode(registry).decode(), content_type
