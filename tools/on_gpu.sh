#!/bin/bash
# What a GPU is asked, in few minutes: bash tools/on_gpu.sh STEP... writes records and logs to $OUT (default: runs/gpu)
# and packs them into $PACK, if given, as it goes. Every step has its limit, and none stops the next. Steps joined by +
# run side by side. DEVICE=cpu SCALE=10 rehearses them in a tenth of the time.
export OUT=${OUT:-runs/gpu} DEVICE=${DEVICE:-cuda} SCALE=${SCALE:-1} PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1
mkdir -p "$OUT"

step() { # NAME SECONDS COMMAND...
  local name=$1 limit=$(($2 / SCALE)) began=$SECONDS
  timeout -k 5 "$limit" "${@:3}" >"$OUT/$name.log" 2>&1
  echo "$name: exit $? after $((SECONDS - began)) s of $limit"
  tail -c 900 "$OUT/$name.log" | tail -n 6
  if [ "$PACK" ]; then tar czf "$PACK.$name" -C "$OUT" . && mv "$PACK.$name" "$PACK"; fi
}
record() { step "$1" "$2" python3 -m book record "$1" --device "$DEVICE" --folder "$OUT"; }
tests() { step tests 150 python3 -m pytest -qm gpu -n 4 -p no:nbval --confcutdir=tests tests -k "not compiled_base"; }
chapters() { # those whose models come with the book
  for page in attention rotary-bias induction-head evidence/{notation,induction-head,patterns-and-messages,semi-bias}; do
    step "${page/\//-}" 150 env OMP_NUM_THREADS=2 python3 -m pytest --nbval -q --no-header -p no:cacheprovider \
      --nbval-cell-timeout 120 --nbval-kernel-startup-timeout 120 --nbval-sanitize-with tests/nbval.cfg \
      --book-device "$DEVICE" "book/$page.md" &
  done
  wait
}
classifier() { record variant-classifier-careful-training 480; }
streaming() { record streaming-capture-gpu-cost 90; }
smollm2() { record smollm2-gpu 90; }
parallel() { record rotary-bias-medium-parallel 240; }
sequential() { record rotary-bias-medium-sequential 240; }
for steps in "$@"; do
  for each in ${steps//+/ }; do "$each" & done
  wait
done
