// Kernels of a MoE layer between its products: choice of experts, SwiGLU, and their gradients.
//
// Each parameter has 8 bytes, as MoeKernel describes. All kernels run in stream order, access memory of this
// GPU only and wait for nothing. Threads take work in strides of the grid, so any number of blocks will do.
#include "moe/conversions.cuh"
#include "moe/replicas.cuh"
#include "moe/route.cuh"
#include "moe/route_backward.cuh"
#include "moe/swiglu.cuh"
