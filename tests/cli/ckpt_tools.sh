# zero-ckpt on the checkpoints of a run: what is in them, damage, differences, other forms.
source "$(dirname "${BASH_SOURCE[0]}")/ckpt_common.inc"

"$train" "${tiny[@]}" --config config.json --dtype bf16 --ranks 3 --steps 4 --save-dir run \
  --save-every 2 > /dev/null
[[ $(ls -A run) == $'latest\nstep-00000002\nstep-00000004' ]] || fail "saved: $(ls -A run)"

ends_with 0 inspect run
for text in 'step 4: 4 updates, 0 skipped' 'written by 3 ranks at stage 3' 'exp_avg_sq' \
  'h0.qkv.weight' '"step":4'; do
  has said "$text"
done
ends_with 0 inspect run/step-00000002 --json
python3 -c '
import json
o = json.load(open("said"))
assert o["step"] == 2 and o["world_size"] == 3 and o["user_data"]["step"] == 2, o
elements = 0
for p in o["params"]:
    n = 1
    for d in p["shape"]: n *= d
    elements += n
# Not a byte of padding: every element once.
assert {o["bytes"][k] for k in ("master_weights", "exp_avg", "exp_avg_sq")} == {4 * elements}, o["bytes"]
' || fail "inspect --json: $(cat said)"

ends_with 0 verify run
has said 'run/step-00000002: whole'
has said 'a resume takes run/step-00000004'
ends_with 0 verify run/step-00000002 --json
has said '"whole": true'

# The same state from another number of ranks at another stage: cut otherwise, not a bit else.
same=("${tiny[@]}" --config config.json --set runtime.reproducible=true --steps 2)
"$train" "${same[@]}" --ranks 4 --save-dir four > /dev/null
"$train" "${same[@]}" --ranks 2 --accumulation 2 --stage 1 --save-dir two > /dev/null
ends_with 0 diff four two
[[ ! -s said ]] || fail "no difference, and: $(cat said)"
has errors 'note: world size: 4 -> 2'
has errors 'note: stage: 3 -> 1'
ends_with 1 diff run/step-00000002 run
has said 'step: 2 -> 4'
has said 'parameter wte: step_count: 2 -> 4'
has said 'master_weights/wte: '
ends_with 0 diff run run/step-00000004
[[ ! -s said && ! -s errors ]] || fail "no difference, and: $(cat said errors)"

ends_with 0 convert run converted --world-size 5
[[ $(cat said) == converted/step-00000004 && $(ls converted/step-00000004/*.safetensors | wc -l) == 5 ]] ||
  fail "converted: $(ls converted/*)"
ends_with 0 diff run converted
[[ ! -s said ]] || fail "converted, it differs: $(cat said)"
ends_with 0 verify converted
# What goes on from it is as if nothing had been.
for from in run converted; do
  "$train" "${tiny[@]}" --config config.json --dtype bf16 --ranks 3 --steps 6 --resume $from \
    --json $from.json > /dev/null 2>&1
done
diff <(bits run.json) <(bits converted.json) || fail "a run goes on otherwise from what was converted"

# Damage is told by name and never loaded.
shard=run/step-00000004/rank-00001-of-00003.safetensors
flip $shard -1
ends_with 1 verify run
has said 'run/step-00000002: whole'
has said "run/step-00000004: DAMAGED"
has said "$shard: bytes"
! "$train" "${tiny[@]}" --config config.json --dtype bf16 --ranks 3 --steps 6 --resume run \
  > said 2> errors || fail "loaded what is damaged"
has errors 'rank-00001-of-00003.safetensors'
refused 'rank-00001-of-00003.safetensors' consolidate run model.safetensors
[[ ! -e model.safetensors ]] || fail "half a model is left"
flip $shard -1
ends_with 0 verify run
mv run/step-00000004/manifest.json kept
ends_with 1 verify run
has said 'a resume takes run/step-00000002'
has errors 'note: run/step-00000004/manifest.json is missing'
ends_with 1 verify run/step-00000004
mv kept run/step-00000004/manifest.json

ends_with 0 prune run --keep 1
[[ $(cat said) == step-00000002 ]] || fail "pruned: $(cat said)"
[[ $(ls -A run) == $'latest\nstep-00000004' ]] || fail "left: $(ls -A run)"
ends_with 0 prune run --keep 1
[[ ! -s said ]] || fail "pruned again: $(cat said)"

# A checkpoint with others below it is looked at as well.
cp -r run/step-00000004 best
cp -r run/step-00000004 best/step-00000004
ends_with 0 verify best
has said 'best: whole'
has said 'best/step-00000004: whole'
has said 'a resume takes best'
flip best/rank-00001-of-00003.safetensors -1
ends_with 1 verify best
has said 'best: DAMAGED'
has said 'best/step-00000004: whole'

# Whole ones, of which a resume takes none: no success, and why.
mkdir -p odd/step-00000100
cp -r run/step-00000004 odd/step-00000100
ends_with 1 verify odd/step-00000100
has said 'odd/step-00000100/step-00000004: whole'
has said 'there is none that a resume could take: odd/step-00000100/manifest.json is missing'
# What is no file says nothing, and nothing waits for someone to write into a pipe.
for what in mkdir mkfifo; do
  cp -r run piped
  rm piped/latest
  $what piped/latest
  timeout 10 "$ckpt" verify piped >said 2>errors || fail "latest by $what: $(cat said errors)"
  has errors 'piped/latest names no checkpoint; taken is piped/step-00000004'
  rm -r piped
done
cp -r run piped
rm piped/step-00000004/manifest.json
mkfifo piped/step-00000004/manifest.json
for command in "inspect 2" "verify 1"; do
  code=0
  timeout 10 "$ckpt" ${command% *} piped >said 2>errors || code=$?
  [[ $code == "${command#* }" ]] || fail "${command% *}, the manifest is a pipe: exit code $code"
  grep -qF "piped/step-00000004/manifest.json: it is no plain file" said errors ||
    fail "${command% *}, the manifest is a pipe: $(cat said errors)"
done

# Wrong usage.
mkdir empty
refused 'there is no checkpoint in empty' verify empty
refused 'nowhere is no folder' inspect nowhere
refused 'config.json is no folder' diff run config.json
refused 'DIR' inspect
refused '--world-size' convert run out
refused '--world-size' convert run out --world-size 0
refused '--keep' prune run --keep 0
refused '--dtype' consolidate run out --dtype fp64
has errors 'master,working'
! LC_ALL=C grep -q '[[:cntrl:]]' errors || fail "bytes nobody can read: $(cat -v errors)"
ends_with 0 consolidate --help
has said 'master,working'
! LC_ALL=C grep -q '[[:cntrl:]]' said || fail "bytes nobody can read: $(cat -v said)"
refused 'config.json is no folder' convert run config.json --world-size 2
refused 'cannot find the folder of nowhere/model.safetensors' consolidate run nowhere/model.safetensors
ends_with 0 --help
has said 'consolidate'
has said 'Exit codes'
if [[ -e /dev/full ]]; then
  code=0
  "$ckpt" inspect run > /dev/full 2> errors || code=$?
  [[ $code == 1 ]] || fail "standard output is full: exit code $code"
fi
