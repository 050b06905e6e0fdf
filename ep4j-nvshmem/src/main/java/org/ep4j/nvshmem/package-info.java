/** The backend {@code nvshmem}: bindings of the library, and what the ranks do with it. */
@NullMarked
package org.ep4j.nvshmem;

import org.jspecify.annotations.NullMarked;
