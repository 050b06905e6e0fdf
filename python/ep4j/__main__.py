"""The command line of the installation that the package uses: python -m ep4j, or ep4j of a wheel."""

import os
import sys

from . import _jvm, errors


def main() -> None:
    try:
        launcher = os.path.join(_jvm.home(), "ep4j")
        os.execv(launcher, [launcher, *sys.argv[1:]])
    except (errors.Error, OSError) as error:
        sys.exit(f"ep4j: {error}")


if __name__ == "__main__":
    main()
