// Kernels of a MoE layer between its products: choice of experts, SwiGLU, and their gradients; rows of FP8; and
// the products of few rows.
//
// Each parameter has 8 bytes, as MoeKernel describes. All kernels run in stream order, access memory of this
// GPU only and wait for nothing. Threads take work in strides of the grid, so any number of blocks will do.
#include "moe/conversions.cuh"
#include "moe/few_rows.cuh"
#include "moe/few_rows_fp8.cuh"
#include "moe/fp8.cuh"
#include "moe/replicas.cuh"
#include "moe/route.cuh"
#include "moe/route_backward.cuh"
#include "moe/swiglu.cuh"
