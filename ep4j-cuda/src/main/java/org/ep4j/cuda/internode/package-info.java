/**
 * Connection of the CUDA engine to ranks of other nodes: page-locked memory, counters of a wire,
 * and the proxy that posts the commands of kernels.
 */
@NullMarked
package org.ep4j.cuda.internode;

import org.jspecify.annotations.NullMarked;
