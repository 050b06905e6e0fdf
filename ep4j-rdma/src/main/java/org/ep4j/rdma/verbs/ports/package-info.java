/** The RDMA ports of this host, and which of them a rank uses. */
@NullMarked
package org.ep4j.rdma.verbs.ports;

import org.jspecify.annotations.NullMarked;
