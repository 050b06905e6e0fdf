/** The wire {@code ucx}: libucp over any fabric that UCX supports. */
@NullMarked
package org.ep4j.rdma.ucx;

import org.jspecify.annotations.NullMarked;
