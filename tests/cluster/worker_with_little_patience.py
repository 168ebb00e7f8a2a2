"""A worker that exits after 5 seconds without confirmed leases, instead of 5 minutes."""

import sys

from headwater.__main__ import main
from headwater.engine.cluster import worker

worker.MAX_UNCONFIRMED_SECONDS = 5.0

if __name__ == "__main__":
    sys.exit(main())
