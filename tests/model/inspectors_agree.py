"""TOOL-02: both inspectors print the same JSON of an artifact, and the independent one rebuilds every tensor.

    inspectors_agree.py SLM ARTIFACT SOURCE_DIRECTORY
"""
import pathlib
import subprocess
import sys

INDEPENDENT = pathlib.Path(__file__).resolve().parents[2] / "independent" / "slm_inspect.py"


def main() -> int:
    slm, artifact, source = sys.argv[1:4]
    ours = subprocess.run([slm, "inspect", artifact, "--json"], capture_output=True, check=True).stdout
    theirs = subprocess.run([sys.executable, str(INDEPENDENT), artifact], capture_output=True, check=True).stdout
    if ours != theirs:
        print(f"FAILED: the two inspectors print different JSON ({len(ours)} and {len(theirs)} bytes)")
        return 1
    done = subprocess.run([sys.executable, str(INDEPENDENT), artifact, "--rebuild", source], check=False)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
