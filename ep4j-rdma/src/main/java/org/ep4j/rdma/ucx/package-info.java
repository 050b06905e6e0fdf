/** The wire {@code ucx}: libucp, which drives whatever fabric it finds. */
@NullMarked
package org.ep4j.rdma.ucx;

import org.jspecify.annotations.NullMarked;
