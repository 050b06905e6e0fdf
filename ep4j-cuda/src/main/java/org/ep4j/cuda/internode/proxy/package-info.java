/**
 * The proxy: kernels push commands into rings in page-locked memory, and host threads post them to
 * a wire. For GPUs that cannot access a network card directly.
 */
@NullMarked
package org.ep4j.cuda.internode.proxy;

import org.jspecify.annotations.NullMarked;
