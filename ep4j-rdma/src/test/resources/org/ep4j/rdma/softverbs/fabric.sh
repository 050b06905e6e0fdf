#!/bin/sh
# Makes the description of an emulated fabric, and changes its cables.
#
#   fabric.sh make DIRECTORY HOSTS PORTS    devices soft_a0, soft_a1, ..., soft_b0, ... with one port each
#   fabric.sh up|down DIRECTORY PORT        connects or pulls the cable of a port, for example b0
#   fabric.sh cable DIRECTORY PORT LOSS DELAY RATE
#       loses LOSS percent of its packets, delays them by DELAY microseconds, and carries RATE MB/s (0: any)
#   fabric.sh pair DIRECTORY PORT NUMBER    breaks a queue pair: 1 is the last that the port has connected
#   fabric.sh refuse DIRECTORY PORT STATE   its queue pairs cannot enter a state: 1 to be initialised, 2 to receive, 3 to send, 6 to stop, 0 any
set -eu

# Writes into a file of 64 bytes in place: a device reads it at any time.
put() {
  printf '%-63s\n' "$2" 1<>"$1"
}

# A line of 16 bytes: a device reads the lines that were added.
break_pair() {
  number=$(tail -n "$2" "$1/connections" | sed -n '1s/^pair \([0-9]*\) .*/\1/p')
  if [ "$(wc -l <"$1/connections")" -lt "$2" ] || [ -z "$number" ]; then
    echo "$1 has not connected $2 queue pairs" >&2
    exit 1
  fi
  printf '%-15s\n' "$number" >>"$1/broken"
}

make_port() {
  port=$1/class/infiniband/soft_$4/ports/1
  mkdir -p "$port/gids" "$port/gid_attrs/types" "$port/hw_counters" "$1/class/infiniband/soft_$4/device"
  put "$port/state" "4: ACTIVE"
  put "$port/cable" "loss 0 delay 0 rate 0"
  put "$port/refuse" 0
  : >"$port/connections"
  : >>"$port/broken"
  echo Ethernet >"$port/link_layer"
  echo "100 Gb/sec (emulated)" >"$port/rate"
  # Rail and host; the first address is the link-local one, as of other RoCE ports.
  printf 'fe80:0000:0000:0000:0000:0000:%02x00:00%02x\n' "$2" "$3" >"$port/gids/0"
  printf '0000:0000:0000:0000:0000:ffff:0a%02x:00%02x\n' "$2" "$3" >"$port/gids/1"
  echo "RoCE v2" >"$port/gid_attrs/types/0"
  echo "RoCE v2" >"$port/gid_attrs/types/1"
  echo 0 >"$port/hw_counters/rcvd_rnr_err"
  echo 0 >"$port/hw_counters/send_rnr_err"
}

case ${1:-} in
  make)
    host=1
    for letter in a b c d e f g h; do
      [ "$host" -le "$3" ] || break
      rail=0
      while [ "$rail" -lt "$4" ]; do
        make_port "$2" "$rail" "$host" "$letter$rail"
        rail=$((rail + 1))
      done
      host=$((host + 1))
    done
    ;;
  up) put "$2/class/infiniband/soft_$3/ports/1/state" "4: ACTIVE" ;;
  down) put "$2/class/infiniband/soft_$3/ports/1/state" "1: DOWN" ;;
  cable) put "$2/class/infiniband/soft_$3/ports/1/cable" "loss $4 delay $5 rate $6" ;;
  pair) break_pair "$2/class/infiniband/soft_$3/ports/1" "$4" ;;
  refuse) put "$2/class/infiniband/soft_$3/ports/1/refuse" "$4" ;;
  *)
    sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p}' "$0"
    exit 2
    ;;
esac
