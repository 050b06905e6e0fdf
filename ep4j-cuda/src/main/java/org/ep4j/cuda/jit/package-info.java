/**
 * Kernels from source to cubin: the sources in this jar, what they are compiled with, NVRTC, and
 * the cache on disk that all processes of a user share.
 */
@NullMarked
package org.ep4j.cuda.jit;

import org.jspecify.annotations.NullMarked;
