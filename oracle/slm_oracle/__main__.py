"""The command: python -m slm_oracle export|check|repeatability|error (docs/spec/oracle.md)."""

from __future__ import annotations

import argparse
import json
import os
import sys


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="slm_oracle", description="Golden vectors from the pinned source framework.")
    commands = parser.add_subparsers(dest="command", required=True)

    def common(name: str, text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("--source", required=True, help="directory in Hugging Face layout")
        command.add_argument("--cases", required=True, help="cases file (docs/spec/cases.md)")
        return command

    export = common("export", "Write one golden file.")
    export.add_argument("--mode", required=True, choices=["source", "reference", "truth"])
    export.add_argument("--out", required=True)
    export.add_argument("--taps", default="public", choices=["all", "public", "none"],
                        help="layers observed: all; first, middle and last; none")
    export.add_argument("--bounded", action="store_true", help="public form: --rows 4 --logit-columns 1024 --attach-bytes 65536 unless given")
    export.add_argument("--rows", type=int, help="last positions kept of each case (0: all)")
    export.add_argument("--layer-cases", type=int, default=0, help="cases that keep stages inside layers (0: all)")
    export.add_argument("--logit-columns", type=int, help="logits kept of vocabularies above 4096 (0: all)")
    export.add_argument("--attach-bytes", type=int, help="largest effective tokenizer that is attached (0: any)")
    export.add_argument("--top-k", type=int, default=64)
    export.add_argument("--threads", type=int, default=1)
    export.add_argument("--repeatability", help="JSON file of the repeatability command; its figures enter the receipt")

    check = common("check", "Regenerate a golden file and compare; exit 1 with the first difference.")
    check.add_argument("file")
    check.add_argument("--json", action="store_true")

    measure = common("repeatability", "Measure how far the oracle repeats itself across threads and instruction sets.")
    measure.add_argument("--mode", required=True, choices=["source", "reference", "truth"])
    measure.add_argument("--out", required=True, help="JSON file")
    measure.add_argument("--recorded", action="append", default=[],
                         help="earlier evidence of the same source and cases, from another processor perhaps")
    measure.add_argument("--limit-cases", type=int, default=4, help="cases measured, from the first on")

    error = common("error", "Print the largest error of the framework's logits against the truth, as JSON.")
    error.add_argument("--mode", default="reference", choices=["source", "reference"])
    error.add_argument("--threads", type=int, default=1)
    return parser


def _export(arguments: argparse.Namespace) -> int:
    from .export import Options, export

    chosen = {key: getattr(arguments, key) for key in ("taps", "layer_cases", "top_k", "threads")}
    chosen.update({key: value for key in ("rows", "logit_columns", "attach_bytes") if (value := getattr(arguments, key)) is not None})
    options = Options.bounded(**chosen) if arguments.bounded else Options(**chosen)
    measured = None
    if arguments.repeatability:
        from .repeatability import load

        measured = load(arguments.repeatability)
    export(arguments.source, arguments.cases, arguments.mode, arguments.out, options, measured)
    return 0


def _check(arguments: argparse.Namespace) -> int:
    from .check import check

    report = check(arguments.file, arguments.source, arguments.cases)
    if arguments.json:
        print(json.dumps(report, indent=2))
    else:
        print(f"{report['verdict']} {os.path.basename(arguments.file)} ({report['criterion']}): {report['detail']}")
    return 0 if report["verdict"] == "pass" else 1


def main(argv: list[str]) -> int:
    arguments = _parser().parse_args(argv)
    # Before any numeric library is loaded: they read these once.
    threads = str(getattr(arguments, "threads", 1))
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = threads
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", TOKENIZERS_PARALLELISM="false",
                      CUBLAS_WORKSPACE_CONFIG=":4096:8", TRANSFORMERS_VERBOSITY="error")
    from . import OracleError

    try:
        if arguments.command == "export":
            return _export(arguments)
        if arguments.command == "check":
            return _check(arguments)
        if arguments.command == "error":
            from .measure import logit_error

            print(json.dumps(logit_error(arguments.source, arguments.cases, arguments.mode, arguments.threads), indent=1))
            return 0
        from .repeatability import measure

        measure(arguments.source, arguments.cases, arguments.mode, arguments.out, arguments.limit_cases, arguments.recorded)
        return 0
    except OracleError as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return 4


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
