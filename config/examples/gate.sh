#!/bin/sh
# A gate for CI: fail when the snapshot that a site pins would lose something by moving on.
#
#   PINNED=develop-2025-05-25 NEWEST=develop-2025-06-01 CATALOGUE=catalogue.git sh gate.sh
set -eu
exec cachewatch diff "HEAD:$PINNED" "HEAD:$NEWEST" --repo "$CATALOGUE" \
  --fail-on package-removed --fail-on place-lost --fail-on downgraded
