#!/usr/bin/env bash
# Measures the kernels of the host engine with JMH. The sum of bf16 rows is compared with the C intrinsics
# of the peers in the same process on the same rows. Arguments go to JMH, for example: -f 1 -p rows=cache
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
# shellcheck source=tools/common.sh
source "$here/../tools/common.sh"
offer_help "$@"
library=$here/build/libbf16_sum.so

mkdir -p "$here/build"
"${CC:-cc}" -O3 -march=native -std=c11 -shared -fPIC -o "$library" "$here/peers/bf16_sum.c"
exec "$here/../tools/jmh" RowKernels -jvmArgsAppend "-Dep4j.peerLibrary=$library" "$@"
