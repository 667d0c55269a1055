#!/bin/sh
# A gate for CI: fail when moving from the snapshot that a site pins to a newer one would lose something.
#
#   PINNED=develop-2025-05-25 NEWEST=develop-2025-06-01 CATALOGUE=catalogue.git sh gate.sh
#
# With ENVIRONMENT, fail only when the newer snapshot lacks a binary of that environment.
#
#   ENVIRONMENT=spack.lock NEWEST=develop-2025-06-01 CATALOGUE=catalogue.git sh gate.sh
set -eu
if [ -n "${ENVIRONMENT-}" ]; then
  exec cachewatch coverage "$ENVIRONMENT" --tag "$NEWEST" --repo "$CATALOGUE" --quiet --fail-on lost
fi
exec cachewatch diff "HEAD:$PINNED" "HEAD:$NEWEST" --repo "$CATALOGUE" --fail-on lost --fail-on downgraded
