# zero-config explain: every value with its origin, as a file that means the same.
source "$(dirname "${BASH_SOURCE[0]}")/config_common.inc"

without_origins() {  # FILE
  grep -v '^//' "$1" | sed 's,  // .*$,,'
}

# FILE FLAGS...: what is explained is accepted, explains itself to the same values, and differs in
# nothing from the file.
round_trip() {
  ends_with 0 explain "$@"
  cp said explained.json
  shift
  ends_with 0 explain explained.json "$@"
  diff <(without_origins explained.json) <(without_origins said) > difference ||
    fail "explained again, $* come to something else: $(cat difference)"
  [[ $* == --world-size* ]] || set -- --world-size 4 "$@"
  ends_with 0 check explained.json "$@"
}

# Who said what.
cat > origins.json <<'JSON'
{
  "train_batch_size": 16,
  "gradient_accumulation_steps": "auto",
  "optimizer": {
    "type": "adamw", "params": {"lr": "auto", "eps": 1e-6}
  },
  "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": "auto"}},
  "zero_optimization": {
    "stage": 3,
    "prefetch_bucket_size": 5e2,
    "reduce_bucket_size": "auto",
    "stage3_param_persistence_threshold": "auto",
    "cpu_offload": true
  },
  "bfloat16": {"enabled": "auto"}
}
JSON
facts=(--fact accumulation=2 --fact lr=1e-4 --fact hidden_size=16)
ends_with 0 explain origins.json --world-size 4 "${facts[@]}"
for line in '  "train_batch_size": 16,  // origins.json:2:3' \
            '  "train_micro_batch_size_per_gpu": 2,  // follows from the batch sizes' \
            '  "gradient_accumulation_steps": 2,  // fact accumulation' \
            '  "gradient_clipping": 1,  // default' \
            '    "type": "AdamW",  // origins.json:5:5' \
            '      "lr": 1e-04,  // fact lr' \
            '      "eps": 1e-06,  // origins.json:5:47' \
            '      "betas": [0.9, 0.999],  // default' \
            '      "warmup_max_lr": 1e-04,  // "auto" without the fact warmup_max_lr' \
            '    "enabled": "auto",  // "auto" without the fact dtype' \
            '    "stage": 3,  // origins.json:9:5' \
            '    "stage3_prefetch_bucket_size": 500,  // origins.json:10:5' \
            '    "reduce_bucket_size": 256,  // fact hidden_size' \
            '    "overlap_comm": true,  // default' \
            '      "device": "cpu",  // origins.json:13:5'; do
  grep -qxF -- "$line" said || fail "'$line' is no line of: $(cat said)"
done
has said '// warning: bfloat16: '
has said '// warning: gradient_clipping: '
has said '// note: bfloat16.enabled: '
# A value a line, each with an origin; the comment belongs to its line even before a bracket.
[[ $(grep -cE '^ +"[a-zA-Z0-9_]+": [^{]*  // .' said) == $(grep -cE '^ +"[a-zA-Z0-9_]+": [^{]+$' said) ]] ||
  fail "a value without an origin: $(cat said)"

ends_with 0 check origins.json --world-size 4 "${facts[@]}" --json
mv said checked
ends_with 0 explain origins.json --world-size 4 "${facts[@]}"
python3 -c 'import json, re
text = "".join(re.sub("  // .*$", "", line) for line in open("said") if not line.startswith("//"))
def flat(o, path=""):
    for key, value in o.items():
        if isinstance(value, dict): yield from flat(value, path + key + ".")
        else: yield path + key, value
explained, checked = list(flat(json.loads(text))), list(json.load(open("checked"))["effective"].items())
assert explained == checked, set(map(str, explained)) ^ set(map(str, checked))' ||
  fail "explain and check --json differ"

round_trip origins.json --world-size 4 "${facts[@]}"
round_trip origins.json --world-size 8 "${facts[@]}" --fact dtype=bf16
round_trip plain.json --world-size 4
round_trip template.json --world-size 4 "${needed[@]}"
round_trip template.json --world-size 4 "${needed[@]}" --fact hidden_size=1024 --fact dtype=fp16
round_trip plain.json  # without ranks: the batch sizes are what the file says
ends_with 0 explain plain.json
has said '"gradient_accumulation_steps": null'

for scheduler in '{"type": "WarmupLR", "params": {"warmup_min_lr": [0, 1e-5], "warmup_max_lr": [1e-3, 1e-4]}}' \
                 '{"type": "WarmupCosineLR", "params": {"total_num_steps": 10, "warmup_type": "LINEAR"}}' \
                 '{"type": "OneCycle", "params": {"cycle_min_lr": 1e-4, "cycle_max_lr": [1e-3]}}' \
                 '{"type": "LRRangeTest"}' '{}' 'null'; do
  for optimizer in '{"type": "Adam", "params": {"adam_w_mode": false}}' '{"type": "SGD"}'; do
    cat > kinds.json <<JSON
{"train_batch_size": 64, "optimizer": $optimizer, "scheduler": $scheduler, "steps_per_print": 7,
 "fp16": {"enabled": true, "initial_scale_power": 3, "min_loss_scale": 0.5},
 "data_types": {"grad_accum_dtype": "float32"}, "communication_data_type": "fp32",
 "runtime": {"memory_budget": "1.5GiB", "reserved": "1 kB", "timeout_s": 3.5}}
JSON
    round_trip kinds.json --world-size 4
    has explained.json '"memory_budget": 1610612736'
    [[ $optimizer != *SGD* ]] || lacks explained.json '"betas"'
    [[ $optimizer != *Adam* ]] || has explained.json '"adam_w_mode": false'
  done
done

# A name of a file may not end the comment.
name=$'two\nlines "x.json'
cp plain.json "$name"
round_trip "$name" --world-size 4

# Refused as check does, also without ranks.
refused explain template.json -- 'the fact lr' 'the fact total_steps'
refused explain no_such.json -- no_such.json
refused explain plain.json --world-size 3 -- 'world size 3'
refused explain plain.json --json -- '--json'
refused explain origins.json --device cuda "${facts[@]}" -- 'cpu_offload'
