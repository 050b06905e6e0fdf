/**
 * The CUDA engine: dispatch and combine by kernels that write directly into the memory of other
 * GPUs. {@code kernels/common/protocol.cuh} documents the protocol between ranks.
 */
@NullMarked
package org.ep4j.cuda.engine;

import org.jspecify.annotations.NullMarked;
