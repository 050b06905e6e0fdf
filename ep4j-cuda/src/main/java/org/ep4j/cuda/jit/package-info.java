/**
 * Kernels from source to cubin: the sources in this jar, their compilation, NVRTC, and the disk cache that all processes of a user share.
 */
@NullMarked
package org.ep4j.cuda.jit;

import org.jspecify.annotations.NullMarked;
