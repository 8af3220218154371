"""Where runs are computed: in this process, in processes of this machine, or on a Ray cluster."""

from ipl.bench.engines.engine import Engine, Finished, Queue, Tell
from ipl.bench.engines.local import LocalEngine
from ipl.bench.runner import RunEnvironment
from ipl.support.errors import ConfigError

ENGINES = ("local", "ray")


def make_engine(
    name: str, place: RunEnvironment, jobs: int = 1, address: str | None = None
) -> Engine:
    """Returns the engine of that name; `address` is that of a Ray cluster."""
    if name not in ENGINES:
        raise ConfigError(f"engine is {name!r}; allowed are {', '.join(ENGINES)}.")
    if name == "ray":
        from ipl.bench.engines.ray_engine import RayEngine

        return RayEngine(place, jobs, address)
    if address is not None:
        raise ConfigError(f"address is {address!r}; it is for engine ray, not for {name!r}.")
    return LocalEngine(place, jobs)


__all__ = ["ENGINES", "Engine", "Finished", "LocalEngine", "Queue", "Tell", "make_engine"]
