/** The backend {@code nvshmem}: bindings of the library and their use. */
@NullMarked
package org.ep4j.nvshmem;

import org.jspecify.annotations.NullMarked;
