#!/usr/bin/env bash
# A run of Megatron-LM as the command of a model, with `format: megatron-file` (docs/trainers.md):
#   bash megatron.sh {mixture} {folder} {steps} {evaluate_every} {batch_rows} {sequence_length} {seed} {gpus} DOMAINS
# DOMAINS: names of the validation sets as one word, "web code". VALID: their prefixes in that order. MEGATRON: the
# checkout. MODEL: flags of the model, the tokenizer and the rates, which no recipe sets.
set -euo pipefail
mixture=$1 folder=$2 steps=$3 every=$4 rows=$5 length=$6 seed=$7 gpus=$8
read -ra domains <<<"$9"
read -ra valid <<<"${VALID:?prefixes of the validation sets, in the order of their names}"
read -ra model <<<"${MODEL:?flags of the model, such as --num-layers 12}"
# it reads no loss of the last update otherwise
((steps % every == 0)) || { echo "megatron.sh: error: $steps steps are no multiple of $every" >&2 && exit 1; }
python -c 'import json, sys
train = open(sys.argv[1], encoding="utf-8").read().split()
print(json.dumps({"train": train, "valid": sys.argv[2:], "test": None}))' "$mixture" "${valid[@]}" >"$folder/data.json"
# What it prints of a domain becomes a line of losses.csv; sed ends after it, whatever signal it is sent.
[ -e "$folder/losses.csv" ] || echo step,domain,loss >"$folder/losses.csv"
loss='s/.*validation-([^ ]+) loss at iteration ([0-9]+) \| lm loss value: ([^ ]+).*/\2,\1,\3/p'
exec > >(trap "" INT TERM && exec tee >(trap "" INT TERM && exec sed -nEu "$loss" >>"$folder/losses.csv"))
# exec: SIGTERM reaches it
exec torchrun --nproc-per-node "$gpus" "${MEGATRON:?its checkout}/pretrain_gpt.py" \
    --per-split-data-args-path "$folder/data.json" \
    --full-validation --multiple-validation-sets --validation-set-names "${domains[@]}" \
    --train-iters "$steps" --eval-interval "$every" \
    --global-batch-size "$rows" --seq-length "$length" --seed "$seed" \
    --save "$folder" --load "$folder" --save-interval "$every" --exit-signal-handler "${model[@]}"
