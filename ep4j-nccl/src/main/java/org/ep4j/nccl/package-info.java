/** The backend {@code nccl}: bindings of the library, and what the ranks do with it. */
@NullMarked
package org.ep4j.nccl;

import org.jspecify.annotations.NullMarked;
