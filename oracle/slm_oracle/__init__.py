"""Golden vectors from the pinned source framework (docs/spec/oracle.md)."""

EXPORTER_VERSION = "1.0.0"


class OracleError(Exception):
    """An input that is refused, or a run that cannot be trusted. The message is one line."""
