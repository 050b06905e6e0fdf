/**
 * The CUDA engine: dispatch and combine by kernels that write straight into the memory of other
 * GPUs. The protocol between ranks is in {@code kernels/protocol.cuh}.
 */
@NullMarked
package org.ep4j.cuda.engine;

import org.jspecify.annotations.NullMarked;
