# Reproducible mode, eight slots, clipping on: the same bits for 1, 2, 4 and 8 ranks at all stages.
source "$(dirname "${BASH_SOURCE[0]}")/train_common.inc"

for dtype in "${dtypes[@]}"; do
  for ranks in 1 2 4 8; do
    for stage in 0 1 2 3; do
      out=$dtype.$ranks.$stage
      "$train" "${tiny[@]}" --ranks $ranks --accumulation $((8 / ranks)) --steps 5 \
        --dtype $dtype --stage $stage --set runtime.reproducible=true \
        --set gradient_clipping=0.5 --set zero_optimization.reduce_bucket_size=1000 \
        --set zero_optimization.stage3_param_persistence_threshold=0 --json $out
      same_bits $out $dtype.1.0 "$dtype, $ranks ranks, stage $stage"
    done
  done
done
