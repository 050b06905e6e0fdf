/**
 * The wire {@code verbs}: reliable connections of libibverbs, several a peer, on one or two ports.
 */
@NullMarked
package org.ep4j.rdma.verbs;

import org.jspecify.annotations.NullMarked;
