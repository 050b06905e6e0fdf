/**
 * Kernels of the host engine: they copy, sum and convert rows at absolute native addresses.
 *
 * <p>There are two implementations with the same bits, one plain and one with the Vector API;
 * {@link org.ep4j.engine.host.kernel.RowKernels#get()} returns the one chosen for this process.
 * {@link org.ep4j.engine.host.kernel.Bf16}, {@link org.ep4j.engine.host.kernel.Fp16}, {@link
 * org.ep4j.engine.host.kernel.Fp8}, {@link org.ep4j.engine.host.kernel.NvFp4} and {@link
 * org.ep4j.engine.host.kernel.LogFmt} define the number formats once, in scalar form: other engines
 * must reproduce them.
 */
@NullMarked
package org.ep4j.engine.host.kernel;

import org.jspecify.annotations.NullMarked;
