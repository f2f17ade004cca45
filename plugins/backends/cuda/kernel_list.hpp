// The list of all kernels and their names in the compiled modules; new kernels are added here.
#pragma once

#include "cells.hpp"
#include "layers.hpp"
#include "losses.hpp"
#include "noise.hpp"
#include "resident.hpp"
#include "scales.hpp"
#include "whole_products.hpp"

// clang-format off
#define PRIVGRAD_CUDA_KERNELS(kernel)                                   \
  kernel(rows_by_rows, Product<AlongInner, AlongInner, WideTile>)       \
  kernel(rows_by_rows_narrow, Product<AlongInner, AlongInner, NarrowTile>)\
  kernel(rows_by_columns, Product<AlongInner, AcrossInner, WideTile>)   \
  kernel(rows_by_columns_narrow, Product<AlongInner, AcrossInner, NarrowTile>)\
  kernel(patches_by_rows, Product<Patches, AlongInner, WideTile>)       \
  kernel(patches_by_rows_narrow, Product<Patches, AlongInner, NarrowTile>)\
  kernel(seen_errors, Product<SeenErrors, ElementWeights, NarrowestTile, true>)\
  kernel(conv_gradient, Product<AcrossInner, PatchColumns, WideTile>)   \
  kernel(reading_queries, Product<AcrossInner, ReadingQueries, NarrowTile>)\
  kernel(dense_gradient, ForEach<DenseGradient>)                        \
  kernel(conv_biases, ForEach<ConvBiases>)                              \
  kernel(activate, ForEach<Activate>)                                   \
  kernel(activate_backward, ForEach<ActivateBackward>)                  \
  kernel(pool_forward, ForEach<PoolForward>)                            \
  kernel(pool_backward, ForEach<PoolBackward>)                          \
  kernel(norm_moments, NormMoments)                                     \
  kernel(norm_forward, ForEach<NormForward>)                            \
  kernel(norm_backward, NormBackward)                                   \
  kernel(norm_gradient, ForEach<NormGradient>)                          \
  kernel(embedding_forward, ForEach<EmbeddingForward>)                  \
  kernel(embedding_gradient, ForEach<EmbeddingGradient>)                \
  kernel(pass_on, ForEach<PassOn>)                                      \
  kernel(add_to, ForEach<AddTo>)                                        \
  kernel(multiply_by, ForEach<MultiplyBy>)                              \
  kernel(multiply_values, ForEach<MultiplyValues>)                      \
  kernel(take_part, ForEach<TakePart>)                                  \
  kernel(put_part, ForEach<PutPart>)                                    \
  kernel(mask_tokens, ForEach<MaskTokens>)                              \
  kernel(add_positions, ForEach<AddPositions>)                          \
  kernel(take_first, ForEach<TakeFirst>)                                \
  kernel(put_in_front, ForEach<PutInFront>)                             \
  kernel(take_behind, ForEach<TakeBehind>)                              \
  kernel(add_places, ForEach<AddPlaces>)                                \
  kernel(spread_places, ForEach<SpreadPlaces>)                          \
  kernel(turn_pairs, ForEach<TurnPairs>)                                \
  kernel(row_softmax, RowSoftmax)                                       \
  kernel(row_softmax_backward, RowSoftmaxBackward)                      \
  kernel(judge, ForEach<Judge>)                                         \
  kernel(loss_gradient, ForEach<LossGradient>)                          \
  kernel(token_loss_gradient, TokenLossGradient)                        \
  kernel(row_statistics, RowStatistics)                                 \
  kernel(dense_norm, ForEach<DenseNorm>)                                \
  kernel(row_norm, ForEach<RowNorm>)                                    \
  kernel(token_row_squares, TokenRowSquares)                            \
  kernel(token_norm, ForEach<TokenNorm>)                                \
  kernel(choose_place_roundings, ForEach<ChoosePlaceRoundings>)         \
  kernel(place_sums, WholeProduct<RoundedPixels, RoundedErrors, PlaceSums>)\
  kernel(shrink_place_sums, ShrinkPlaceSums)                            \
  kernel(choose_scales, ForEach<ChooseScales>)                          \
  kernel(clip_scales, ForEach<ClipScales>)                              \
  kernel(take_within, ForEach<TakeWithin>)                              \
  kernel(choose_dense_roundings, ForEach<ChooseDenseRoundings>)         \
  kernel(round_operands, RoundOperands)                                 \
  kernel(row_squares, RowSquares)                                       \
  kernel(token_squares, TokenSquares)                                   \
  kernel(sum_squares, ForEach<SumSquares>)                              \
  kernel(cell_product, WholeProduct<WholeRows, WholeRows, CellSums>)    \
  kernel(bias_sums, SumOfCells<BiasCells>)                              \
  kernel(row_sums, SumOfCells<RowCells>)                                \
  kernel(whole_sums, SumOfCells<WholeCells>)                            \
  kernel(token_sums, ForEach<TokenSums>)                                \
  kernel(rounded_noise, RoundedNoise)                                   \
  kernel(dense_factors, ForEach<DenseFactors>)                          \
  kernel(row_factors, ForEach<RowFactors>)                              \
  kernel(whole_factors, ForEach<WholeFactors>)                          \
  kernel(token_factors, ForEach<TokenFactors>)                          \
  kernel(gather_rows, ForEach<GatherRows>)                              \
  kernel(example_checksums, ExampleChecksums)                           \
  kernel(gather_cells, ForEach<Gather<int64_t>>)                        \
  kernel(gather_floats, ForEach<Gather<float>>)                         \
  kernel(copy_floats, ForEach<CopyFloats>)                              \
  kernel(move_parameters, MoveParameters)
// clang-format on
