# zero-config check: verdicts, exit codes, what goes where, and facts.
source "$(dirname "${BASH_SOURCE[0]}")/config_common.inc"

ends_with 0 check plain.json --world-size 4
[[ $(cat said) == 'plain.json: accepted: stage 2, train_batch_size 16 = 2 x 2 x 4 ranks' ]] ||
  fail "check plain.json: $(cat said)"
ends_with 0 check plain.json --world-size 4 --json
holds 'list(o) == ["stage", "effective", "warnings", "notes"]' \
      'o["stage"] == 2 and o["warnings"] == [] and o["notes"] == []' \
      'all(not isinstance(v, dict) for v in o["effective"].values())' \
      'o["effective"]["gradient_accumulation_steps"] == 2' \
      'o["effective"]["optimizer.params.lr"] == 3e-4' \
      'o["effective"]["optimizer.params.betas"] == [0.9, 0.999]' \
      'o["effective"]["optimizer.type"] == "AdamW"' \
      'o["effective"]["zero_optimization.reduce_bucket_size"] == 500000000' \
      'o["effective"]["fp16.enabled"] is False and o["effective"]["runtime.memory_budget"] is None' \
      'not any(p.startswith("scheduler.") for p in o["effective"] if p != "scheduler.type")'

# Batch sizes: all four numbers.
refused check plain.json --world-size 3 -- 'train_batch_size 16' \
  'train_micro_batch_size_per_gpu 2' 'gradient_accumulation_steps not given' 'world size 3'

# An old file: comments, other names, numbers in other clothes.
cat > old.json <<'JSON'
/* from the wiki */
{
  "train_batch_size": "3.2e1",  // with quotes
  "_comment": {"anything": "here", "anything": 2},
  "//": "and here",
  "optimizer": {"type": "Adam", "params": {"lr": 0.001, "torch_adam": true}},
  "bfloat16": {"enabled": true},
  "zero_optimization": {
    "stage": 3.0,
    "reduce_bucket_size": 5e8,
    "prefetch_bucket_size": 1000,
    "cpu_offload": true,
    "stage3_gather_fp16_weights_on_model_save": true,
    "overlap_comm": null
  },
  "steps_per_print": 10,
  "flops_profiler": {"enabled": true, "whatever": [1, {}]},
  "tensor_parallel": {"tp_size": 2},
  "amp": {"enabled": false}
}
JSON
ends_with 0 check old.json --world-size 4 --json
holds 'o["stage"] == 3 and o["effective"]["train_batch_size"] == 32' \
      'o["effective"]["train_micro_batch_size_per_gpu"] == 8' \
      'o["effective"]["zero_optimization.stage3_prefetch_bucket_size"] == 1000' \
      'o["effective"]["bf16.enabled"] is True and "bfloat16.enabled" not in o["effective"]' \
      'o["effective"]["zero_optimization.overlap_comm"] is True' \
      'o["effective"]["zero_optimization.offload_optimizer.device"] == "cpu"' \
      '"zero_optimization.cpu_offload" not in o["effective"]' \
      '"3.2e1" in about(o["warnings"], "train_batch_size")' \
      '"bf16" in about(o["warnings"], "bfloat16")' \
      '"offload_optimizer.device" in about(o["warnings"], "zero_optimization.cpu_offload")' \
      '"stage3_gather_16bit_weights_on_model_save" in about(
         o["warnings"], "zero_optimization.stage3_gather_fp16_weights_on_model_save")' \
      '"1" in about(o["warnings"], "gradient_clipping")' \
      'about(o["warnings"], "tensor_parallel.tp_size") != ""' \
      'all(about(o["notes"], p) for p in ["steps_per_print", "flops_profiler", "tensor_parallel",
           "amp", "optimizer.params.torch_adam"])'
ends_with 0 check old.json --world-size 4
has said '  warning: bfloat16: '
has said '  note: flops_profiler: '
lacks said $'\e'

# The oldest form of all, and no optimizer.
for old in 'true 1' 'false 0'; do
  read -r value stage <<< "$old"
  echo "{\"train_batch_size\": 4, \"zero_optimization\": $value}" > boolean.json
  ends_with 0 check boolean.json --world-size 4 --json
  holds "o['stage'] == $stage" \
        '"stage" in about(o["warnings"], "zero_optimization")' \
        '"0.001" in about(o["warnings"], "optimizer")'
done

# Offloading: nothing to move on the host, not built elsewhere; nvme nowhere.
for offload in '"cpu_offload": true' '"offload_optimizer": {"device": "cpu"}' \
               '"offload_param": {"device": "cpu"}'; do
  echo "{\"train_batch_size\": 4, \"zero_optimization\": {\"stage\": 3, $offload}}" > offload.json
  ends_with 0 check offload.json --world-size 1 --json
  holds 'any(".device" in r["path"] + r["message"] for r in o["notes"] + o["warnings"])'
  ends_with 0 check offload.json --world-size 1 --device host
  refused check offload.json --world-size 1 --device cuda -- 'offload.json:1:' offload 'none'
done
echo '{"train_batch_size": 4, "zero_optimization": {"offload_param": {"device": "nvme"}}}' > nvme.json
refused check nvme.json --world-size 1 -- 'zero_optimization.offload_param.device' 'nvme' 'not built'

# All that is wrong, at its place, in one message.
cat > wrong.json <<'JSON'
{
  "train_batch_size": 8.5,
  "gradient_cliping": 1.0,
  "optimizer": {
    "type": "AdamW",
    "params": {"lr": -1, "amsgrad": true}
  },
  "zero_optimization": {
    "stage": 4,
    "reduce_bucket_size": 0,
    "stage": 2,
    "overlap_comm ": true,
    "zero_hpz_partition_size": 8
  },
  "amp": {"enabled": true},
  "fp16": {"enabled": true},
  "bf16": {"enabled": true},
  "lr": 1e-3
}
JSON
refused check wrong.json --world-size 2 -- \
  'wrong.json:2:23: train_batch_size: 8.5 is not whole' \
  'wrong.json:3:3: gradient_cliping: unknown key; the nearest is gradient_clipping' \
  'wrong.json:6:22: optimizer.params.lr: -1 is out of range' 'optimizer.params.amsgrad: true' \
  'wrong.json:9:14: zero_optimization.stage: 4 is out of range' \
  'zero_optimization.reduce_bucket_size: 0 is out of range; valid: a whole number, at least 1' \
  'wrong.json:11:5: zero_optimization.stage: duplicate key, on lines 9 and 11' \
  'wrong.json:12:5: zero_optimization["overlap_comm "]: unknown key (has trailing blanks); the nearest is zero_optimization.overlap_comm' \
  'zero_optimization.zero_hpz_partition_size: 8' 'amp.enabled' \
  'and so is fp16.enabled at wrong.json:16:12' 'wrong.json:18:3: lr: unknown key here; it belongs at optimizer.params.lr'
for n in {2..6} {9..13} {15..18}; do
  [[ $n == 4 || $n == 5 || $n == 16 ]] || has errors "wrong.json:$n:"
done

# Not JSON: line and column.
printf '{\n  "train_batch_size": 4,\n  "fp16": {"enabled": true,}\n}\n' > comma.json
refused check comma.json --world-size 1 -- 'comma.json:3:28: ' 'not JSON'
printf '{\n  "train_batch_size": 4\n  "bf16": {"enabled": true}\n}\n' > missing.json
refused check missing.json --world-size 1 -- 'missing.json:3:3: ' 'not JSON'
printf '{"zero_optimization":\n  {"overlap_comm": True}}\n' > python.json
refused check python.json --world-size 1 -- 'python.json:2:20: ' 'not JSON'
printf '{"train_batch_size": 4' > open.json
refused check open.json --world-size 1 -- 'open.json:1:' 'not JSON'
for text in '' '   ' '// nothing'; do
  printf '%s' "$text" > empty.json
  refused check empty.json --world-size 1 -- 'empty.json:1:' 'not JSON'
done
for text in '[]' 'null' '3' '"auto"'; do
  echo "$text" > other.json
  refused check other.json --world-size 1 -- 'other.json:1:1: ' 'not a JSON object'
done
mkdir folder
refused check no_such.json --world-size 1 -- no_such.json
refused check folder --world-size 1 -- folder
if [[ $(id -u) != 0 ]]; then
  cp plain.json locked.json
  chmod 000 locked.json
  refused check locked.json --world-size 1 -- locked.json
fi

# Names of files are told as they are, and the JSON stays JSON.
cp plain.json 'with blank "é".json'
ends_with 0 check 'with blank "é".json' --world-size 4
has said 'with blank "é".json: accepted'
echo '{"train_batch_size": 4, "zéro": 1}' > 'with blank "é".json'
refused check 'with blank "é".json' --world-size 4 -- 'with blank "é".json:1:25: ' 'zéro'

# "auto": what changes the result needs its fact, each named, in one message.
refused check template.json --world-size 2 -- \
  'template.json:10:' 'optimizer.params.lr: "auto"' 'the fact lr' 'the fact betas' 'the fact eps' \
  'the fact weight_decay' 'the fact clipping' 'the fact warmup_steps' 'the fact total_steps' \
  'the fact accumulation' 'the fact micro_batch'
ends_with 0 check template.json --world-size 2 "${needed[@]}" --json
holds 'o["effective"]["train_batch_size"] == 16' \
      'o["effective"]["optimizer.params.lr"] == 2e-5' \
      'o["effective"]["optimizer.params.betas"] == [0.9, 0.95]' \
      'o["effective"]["optimizer.params.eps"] == 1e-6' \
      'o["effective"]["optimizer.params.weight_decay"] == 0.1' \
      'o["effective"]["gradient_clipping"] == 0.5' \
      'o["effective"]["scheduler.params.total_num_steps"] == 100' \
      'o["effective"]["scheduler.params.warmup_num_steps"] == 10' \
      'o["effective"]["scheduler.params.warmup_min_lr"] == 0' \
      'o["effective"]["scheduler.params.warmup_max_lr"] == 2e-5' \
      'o["effective"]["zero_optimization.reduce_bucket_size"] == 500000000' \
      'o["effective"]["fp16.enabled"] == "auto" and o["effective"]["bf16.enabled"] == "auto"' \
      'o["warnings"] == []' \
      'all(about(o["notes"], p) for p in ["fp16.enabled", "bf16.enabled",
           "scheduler.params.warmup_min_lr", "scheduler.params.warmup_max_lr",
           "zero_optimization.reduce_bucket_size", "zero_optimization.stage3_prefetch_bucket_size",
           "zero_optimization.stage3_param_persistence_threshold"])'
ends_with 0 check template.json --world-size 2 "${needed[@]}" --json --fact hidden_size=100 \
  --fact dtype=bf16 --fact warmup_min_lr=1e-7 --fact warmup_max_lr=1e-4
holds 'o["effective"]["zero_optimization.reduce_bucket_size"] == 10000' \
      'o["effective"]["zero_optimization.stage3_prefetch_bucket_size"] == 9000' \
      'o["effective"]["zero_optimization.stage3_param_persistence_threshold"] == 1000' \
      'o["effective"]["bf16.enabled"] is True and o["effective"]["fp16.enabled"] is False' \
      'o["effective"]["scheduler.params.warmup_min_lr"] == 1e-7' \
      'o["effective"]["scheduler.params.warmup_max_lr"] == 1e-4'

# The file wins, and says so.
ends_with 0 check plain.json --world-size 4 --fact lr=1 --fact clipping=0.5 --fact micro_batch=3 --json
holds 'o["effective"]["optimizer.params.lr"] == 3e-4' \
      'o["effective"]["train_micro_batch_size_per_gpu"] == 2' \
      '"fact lr 1" in about(o["warnings"], "optimizer.params.lr")' \
      '"fact micro_batch 3" in about(o["warnings"], "train_micro_batch_size_per_gpu")' \
      'len(o["warnings"]) == 2 and o["notes"] == []'

# What is no fact.
for wrong in 'lrr=1 lrr' '=1 key=value' 'lr key=value' 'lr= number' 'lr=x number' 'lr=-1 range' \
             'betas=0.9 two' 'betas=[0.9,1] range' 'micro_batch=0 range' 'micro_batch=1.5 whole' \
             'hidden_size=0 range' 'dtype=int8 bf16' 'total_steps=0 range' 'warmup_steps=-1 range'; do
  read -r fact text <<< "$wrong"
  refused check plain.json --world-size 4 --fact "$fact" -- "${fact%%=*}" "$text"
done
refused check plain.json --world-size 4 --fact lr=1 --fact lr=1 -- 'lr' 'twice'

# The command line.
refused -- 'subcommand'
refused chek plain.json -- ''
refused check -- FILE
refused check plain.json -- '--world-size'
for size in 0 -1 1.5 many 2147483648; do
  refused check plain.json "--world-size=$size" -- '--world-size'
done
refused check plain.json --world-size 4 --device tpu -- '--device' host cuda
refused check plain.json old.json --world-size 4 -- ''
ends_with 0 --help
has said 'Exit codes'
for fact in "${needed[@]}"; do [[ $fact == --fact ]] || has said "${fact%%=*}"; done

# The reference has a row for each path.
ends_with 0 reference
mv said page
for schedule in WarmupLR WarmupCosineLR OneCycle LRRangeTest; do
  params='{"total_num_steps": 10}'
  [[ $schedule == WarmupCosineLR ]] || params='{}'
  [[ $schedule != OneCycle ]] || params='{"cycle_min_lr": 1, "cycle_max_lr": 2}'
  type=AdamW
  [[ $schedule != WarmupLR ]] || type=SGD
  echo "{\"train_batch_size\": 8, \"optimizer\": {\"type\": \"$type\"},
         \"scheduler\": {\"type\": \"$schedule\", \"params\": $params}}" > all.json
  ends_with 0 check all.json --world-size 1 --json
  python3 -c 'import json
page = open("page").read().splitlines()
paths = json.load(open("said"))["effective"]
assert len(paths) > 90, len(paths)
missing = [p for p in paths if not any(row.startswith((f"| `{p}` |", f"| `{p}`<br>")) for row in page)]
assert not missing, missing
heads = [i for i, row in enumerate(page) if row.startswith("|--") or row.startswith("| --")]
assert heads
for i in heads:
    j = i - 1
    while j < len(page) and page[j].startswith("|"):
        assert page[j].replace("\\|", "").count("|") == page[i].count("|"), page[j]
        j += 1' || fail "reference"
done

# What cannot be written is no success.
if [[ -c /dev/full ]]; then
  for command in 'check plain.json --world-size 4' 'check plain.json --world-size 4 --json' \
                 'explain plain.json' 'diff plain.json boolean.json' reference; do
    code=0
    # shellcheck disable=SC2086  # several words
    "$config" $command > /dev/full 2> errors || code=$?
    [[ $code == 1 ]] || fail "$command: exit code $code for a full disk"
    has errors 'could be written'
  done
fi
