/** Structures that the host writes and kernels read, defined once for both sides. */
@NullMarked
package org.ep4j.cuda.struct;

import org.jspecify.annotations.NullMarked;
