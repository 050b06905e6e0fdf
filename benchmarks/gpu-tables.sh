#!/usr/bin/env bash
# Measures tables of GPUs one after the other on all GPUs of this host:
#   gpu-tables.sh [--ep4j FILE] [--gpus N] [--output DIR] [--dry-run] [TABLE...]
# Prints each table and writes it with its environment to DIR/TABLE.json (default DIR: gpu-tables). Without
# names, measures all tables; --dry-run prints the commands. tools/performance-pages makes pages of the
# files. Processes that share a GPU (on a host with one GPU) need MPS, or the GPU runs one process at a
# time (CONTRIBUTING.md).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
# shellcheck source=tools/common.sh
source "$here/../tools/common.sh"
offer_help "$@"
ep4j=$here/../ep4j
output=gpu-tables
gpus=
dry=false
wanted=()

while (($# > 0)); do
  case $1 in
    --ep4j | --gpus | --output)
      (($# > 1)) || usage_error "$1 needs a value"
      declare "${1#--}=$2"
      shift
      ;;
    --dry-run) dry=true ;;
    -*) usage_error "unknown option $1" ;;
    *) wanted+=("$1") ;;
  esac
  shift
done
gpus=${gpus:-$( (nvidia-smi -L 2>/dev/null || true) | wc -l)}
[[ $gpus =~ ^[1-9][0-9]*$ ]] || usage_error "no GPU on this host: set --gpus"
# On a host with one GPU, two ranks share it: everything but the links is measured.
ranks=$((gpus > 1 ? gpus : 2))
names=()
commands=()

# Adds table $1; the other arguments are its command.
table() {
  names+=("$1")
  shift
  commands+=("$*")
}

ht="bench ht --device cuda --ranks $ranks"
ll="bench ll --device cuda --ranks $ranks"
few="--iterations 60 --warmup 20"
nodes="--processes --nodes 2 --iterations 20 --warmup 10"
# The rows pass through two JVMs, which need more warm-up for the JIT compiler.
sockets="--processes --nodes 2 --iterations 30 --warmup 15"

# shellcheck disable=SC2086 # commands of several words
{
  ((gpus == 1)) || table nvlink bench nvlink
  table ht $ht --sms 8,16,24,32,64 --dtype bf16,fp8
  table ht-cached $ht --sms 24,64 --mode cached $few
  table ht-graph $ht --sms 24,64 --mode graph $few
  table ht-in-place $ht --sms 8,16,24,32,64 --dtype bf16 --zero-copy $few
  table ht-expert-major $ht --sms 24,64 --layout expert-major --mode static $few
  for experts in 16 64 256; do
    table ht-expert-major-$experts $ht --sms 8,16,24,32,64 --layout expert-major --mode static --experts $experts \
      --zero-copy $few
  done
  table ht-hot $ht --sms 24,64 --routing hot $few
  for tokens in 512 1024; do
    table ht-tokens-$tokens $ht --sms 24,64 --tokens $tokens $few
  done
  for hidden in 2048 4096 5120; do
    table ht-hidden-$hidden $ht --sms 24,64 --hidden $hidden $few
  done
  for tokens in 1 16 64 128 256; do
    table ll-$tokens $ll --tokens $tokens --dtype fp8 --partial --zero-copy --iterations 200 --warmup 50
  done
  table ll-rows-home $ll --tokens 128 --dtype fp8 --zero-copy --iterations 200 --warmup 50
  table ll-1-sms $ll --tokens 1 --sms 4,8,16,32 --dtype fp8 --partial --zero-copy $few
  table ll-hook $ll --tokens 128 --dtype fp8 --partial --zero-copy --hook $few
  table ll-rank-major $ll --tokens 128 --dtype fp8 --rank-major --zero-copy $few
  table backends-ht $ht --processes --sms 64 --dtype bf16 --backend direct,nccl,nvshmem,direct $few
  table backends-ll $ll --processes --tokens 128 --dtype fp8 --partial --zero-copy \
    --backend direct,nccl,nvshmem,direct $few
  table put bench put --processes --backend direct,nccl,nvshmem
  table proxy bench proxy
  table nodes-ht-staged $ht $nodes --wire staged --sms 8,12
  table nodes-ht-tcp $ht $sockets --wire tcp --dtype bf16 --against-nccl
  table nodes-ht-nccl $ht $sockets --wire nccl --dtype bf16 --against-nccl
  table nodes-ll-staged $ll $nodes --wire staged --tokens 128 --dtype fp8 --partial --sms 8,12
  table nodes-ll-tcp $ll $nodes --wire tcp --tokens 128 --dtype fp8 --partial
}

for name in "${wanted[@]}"; do
  [[ " ${names[*]} " == *" $name "* ]] || usage_error "no table $name: use one of ${names[*]}"
done

# Restricts NCCL to sockets: on one host it prefers NVLink and shared memory.
measure() {
  if [[ " $* " == *" --against-nccl "* ]]; then
    export NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1
  fi
  "$ep4j" "$@"
}

$dry || mkdir -p "$output"
failed=()
for i in "${!names[@]}"; do
  if ((${#wanted[@]} > 0)) && [[ " ${wanted[*]} " != *" ${names[i]} "* ]]; then
    continue
  fi
  command="${commands[i]} --json $output/${names[i]}.json"
  if $dry; then
    printf '%s\n' "$command"
  else
    printf '\n## %s\nep4j %s\n' "${names[i]}" "$command"
    # shellcheck disable=SC2086 # a command and its arguments
    (measure $command) || failed+=("${names[i]}")
  fi
done
((${#failed[@]} == 0)) || { echo "failed: ${failed[*]}" >&2; exit 1; }
