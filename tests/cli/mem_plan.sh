# zero-mem plan: figure 1 of the ZeRO paper, time and memory of its own, refusals, pictures.
source "$(dirname "${BASH_SOURCE[0]}")/mem_common.inc"

"$mem" plan --params 7.5e9 --dtype bf16 --ranks 64 > said
for row in '0 +64 +120\.0 ' '1 +64 +31\.4 ' '2 +64 +16\.6 ' '3 +64 +1\.88 '; do shows "^$row" said; done
[[ $(grep -cE '^[0-3] ' said) == 4 ]] || fail "rows: $(cat said)"

# Large models cost the tool nothing. Sanitizers need memory of their own.
limit_kib=200000
grep -q '^ZERO_SANITIZE:[A-Z]*=..*' "$ZERO_BIN_DIR/../CMakeCache.txt" && limit_kib=unlimited
for model in '--params 7.5e9 --ranks 64' '--params 128e9 --ranks 64' '--params 1e12 --ranks 1024' \
             '--preset 1t --ranks 1024'; do
  (ulimit -v $limit_kib && "$mem" plan $model --dtype bf16 > said) || fail "$model in $limit_kib KiB"
done

"$mem" plan --preset gpt2-124m --dtype fp16 --stage 1,3,1 --ranks 8,8 --activations 1GB --json > json
holds 'o["model"]["elems"] == 124439808 and o["model"]["units"] == 14' json
holds '[(p["ranks"], p["stage"]) for p in o["plans"]] == [(8, 1), (8, 3)]' json
holds 'all(p["peak_bytes"] == p["memory"]["total"]["peak"] + 10**9 for p in o["plans"])' json

"$mem" plan --params 33 --stage 2 --ranks 1 > said
shows ': 33 elements in 32 units$' said
echo '{"units": [{"name": "a", "params": [{"name": "w", "shape": [1], "dtype": "bf16"}]}]}' > one.json
"$mem" plan --model one.json --stage 2 --ranks 1 > said
shows ': 1 element in 1 unit$' said
"$mem" fit --model one.json --ranks 1 --budget 1GB > said
shows ': 1 element in 1 unit on 1 rank$' said

# An asynchronous save copies a rank's share: 12 bytes for each of 32000 / 4 elements. It comes on top
# of what stays; the peak of training is in a step, which holds more than a copy on its way.
"$mem" plan --params 32000 --stage 2 --ranks 4 --saves async --json > async.json
"$mem" plan --params 32000 --stage 2 --ranks 4 --json > none.json
python3 - <<'PYTHON' || fail "--saves async: $(cat none.json async.json)"
import json
none, saves = (json.load(open(f))["plans"][0]["memory"]["workspace"]["current"]
               for f in ("none.json", "async.json"))
assert saves - none == 12 * 32000 // 4, saves - none
PYTHON

# Ranks that are processes receive the shards of the others: 3 of 1000 / 4
# elements, to a multiple of 8, in fp32.
"$mem" plan --params 32000 --stage 2 --ranks 4 --config <(echo '{"zero_optimization":
  {"reduce_bucket_size": 1000}, "optimizer": {"type": "AdamW"}, "gradient_clipping": 1.0}') \
  --json > threads.json
"$mem" plan --params 32000 --stage 2 --ranks 4 --processes --config <(echo '{"zero_optimization":
  {"reduce_bucket_size": 1000}, "optimizer": {"type": "AdamW"}, "gradient_clipping": 1.0}') \
  --json > processes.json
python3 - <<'PYTHON' || fail "--processes: $(cat threads.json processes.json)"
import json
threads, processes = (json.load(open(f))["plans"][0]["memory"]["workspace"]["peak"]
                      for f in ("threads.json", "processes.json"))
assert processes - threads == 3 * 256 * 4, processes - threads
PYTHON

# What keys do at the stage of the file is none of the other stages' business.
echo '{"optimizer": {"type": "AdamW"}, "gradient_clipping": 1.0, "zero_optimization": {"stage": 2,
       "stage3_prefetch_bucket_size": 1000}}' > staged.json
"$mem" plan --params 5e6 --config staged.json --stage 3 --ranks 8 > said 2> errors
[[ ! -s errors ]] || fail "a warning about the stage of the file: $(cat errors)"
"$mem" fit --params 5e6 --config staged.json --ranks 8 --budget 1GB > said 2> errors
[[ ! -s errors ]] || fail "a warning about the stage of the file: $(cat errors)"

# A model file and a configuration.
cat > model.json <<'JSON'
{"units": [{"name": "a", "params": [{"name": "w", "shape": [800, 1000], "dtype": "bf16"},
                                    {"name": "none", "shape": [0], "dtype": "bf16"}]},
           {"name": "b", "params": [{"name": "one", "shape": [], "dtype": "bf16", "fixed": true}],
            "shared": ["w"]}]}
JSON
echo '{"optimizer": {"type": "AdamW"}, "bf16": {"enabled": true}, "gradient_clipping": 1.0,
       "runtime": {"reserved": "1GB"}}' > config.json
# Fixed addresses cannot be at stage 3: the other rows stand, the exit code says it.
refused 1 '' plan --model model.json --config config.json --ranks 1,1000
shows '^2 +1000 +0\.00' said
shows '^3 +1000 +refused' said
shows 'stage 3 on 1000 ranks is refused: .*one' said
shows 'activations' said

refused 2 'subcommand'
refused 2 'no model is given' plan
refused 2 'exactly one of --params, --model and --preset' plan --params 5 --model model.json
refused 2 'valid: gpt2-124m, gpt2-1.5b, llama-7b, llama-70b, gpt3-175b, 1t' plan --preset gpt5
for count in 0 1.5 -1 7GB nan 1e17; do refused 2 "--params $count" plan --params=$count; done
refused 2 '--ranks' plan --params 5 --ranks 0
refused 2 '--ranks' plan --params 5 --ranks 1,x
refused 2 '--stage' plan --params 5 --stage 4
refused 2 '--dtype' plan --params 5 --dtype fp8
refused 2 '--dtype bf16' plan --model model.json --dtype bf16
refused 2 'no_such.json' plan --model no_such.json
refused 2 'no_such.json' plan --params 5 --config no_such.json
refused 2 '--activations: "lots"' plan --params 5 --activations lots
echo '{"units": [{"name": "a", "params": [{"name": "w", "shape": [-1], "dtype": "bf16"}]}]}' > bad.json
refused 2 'units[0].params[0].shape' plan --model bad.json
echo '{"zero_optimisation": {}}' > bad.json
refused 2 'zero_optimisation' plan --params 5 --config bad.json
for sub in plan fit report; do "$mem" $sub --help > help && shows '--plot' help; done
if [[ -w /dev/full ]]; then
  code=0
  "$mem" plan --params 5 > /dev/full 2> errors || code=$?
  [[ $code == 2 ]] || fail "a full disk: exit code $code"
  shows 'standard output' errors
fi

# Pictures.
refused 2 '.svg or .png' plan --params 5 --plot x.pdf
mkdir none
code=0
PATH="$work/none" "$mem" plan --params 5 --plot x.svg > said 2> errors || code=$?
[[ $code == 2 ]] || fail "without gnuplot: exit code $code"
shows 'gnuplot is not installed: apt-get install gnuplot-nox' errors
[[ ! -e x.svg ]] || fail "without gnuplot a file is left"
printf '#!/bin/sh\necho "gnuplot is broken" >&2\nexit 3\n' > none/gnuplot
chmod +x none/gnuplot
code=0
PATH="$work/none:/usr/bin:/bin" "$mem" plan --params 5 --plot x.svg > said 2> errors || code=$?
[[ $code == 2 && ! -e x.svg ]] || fail "a gnuplot that fails: exit code $code"
shows 'gnuplot failed: gnuplot is broken' errors

if command -v gnuplot > /dev/null; then
  mkdir pictures
  for file in 'plain.svg' "it's \"here\" \$(touch bad) \`touch bad\`.svg" '|touch bad;.svg' '-x.svg' 'a.png'; do
    (cd pictures && "$mem" plan --params 7.5e9 --dtype bf16 --ranks 8,64 --activations 1GB \
      "--plot=$file" > said && rm said) || fail "--plot $file"
    [[ -s pictures/$file ]] || fail "--plot $file wrote nothing"
  done
  [[ $(ls pictures | wc -l) == 5 ]] || fail "other files are left: $(ls pictures)"
  for text in 'stage 3' '64 ranks' exp_avg_sq activations bucket '18.6' '32.4'; do
    grep -qF -- "$text" pictures/plain.svg || fail "'$text' is not in the picture"
  done
  [[ $(head -c 4 pictures/a.png | tail -c 3) == PNG ]] || fail "no PNG"
  refused 2 'no_such_folder/x.svg: cannot be written' plan --params 5 --plot no_such_folder/x.svg
fi
