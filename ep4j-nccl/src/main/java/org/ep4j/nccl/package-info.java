/** The backend and the wire {@code nccl}: bindings of the library, what ranks do with it. */
@NullMarked
package org.ep4j.nccl;

import org.jspecify.annotations.NullMarked;
