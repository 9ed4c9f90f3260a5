# Micro-batches are drawn by slot: the loss of the first step, taken before any update, is the same
# however eight slots are spread over ranks.
source "$(dirname "${BASH_SOURCE[0]}")/train_common.inc"

for ranks in 1 2 3 4 8; do
  if ((ranks == 3)); then continue; fi
  "$train" "${tiny[@]}" --ranks $ranks --accumulation $((8 / ranks)) --steps 1 --json $ranks
  [[ $(bits $ranks | head -1) == $(bits 1 | head -1) ]] || fail "$ranks ranks: another first loss"
done
"$train" "${tiny[@]}" --ranks 3 --steps 3 --json three
"$train" "${tiny[@]}" --ranks 3 --steps 3 --json three_again
same_bits three_again three "the same run twice"
"$train" "${tiny[@]}" --ranks 3 --steps 3 --seed 2 --json other
[[ $(bits other | head -1) != $(bits three | head -1) ]] || fail "--seed is ignored"
