/**
 * The proxy: kernels push commands into rings in page-locked memory, and threads of the host post
 * them to a wire. For GPUs that cannot ring a network card.
 */
@NullMarked
package org.ep4j.cuda.proxy;

import org.jspecify.annotations.NullMarked;
