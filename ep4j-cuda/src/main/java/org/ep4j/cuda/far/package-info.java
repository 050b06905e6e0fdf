/**
 * Ranks of other nodes as the CUDA engine reaches them: page-locked memory, counters of a wire, and
 * the proxy that posts what kernels command.
 */
@NullMarked
package org.ep4j.cuda.far;

import org.jspecify.annotations.NullMarked;
