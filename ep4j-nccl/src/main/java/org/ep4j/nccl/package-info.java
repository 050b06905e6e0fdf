/** The backend and the wire {@code nccl}: bindings of the library and their use. */
@NullMarked
package org.ep4j.nccl;

import org.jspecify.annotations.NullMarked;
