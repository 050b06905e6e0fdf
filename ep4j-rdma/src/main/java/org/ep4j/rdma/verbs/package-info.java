/**
 * The wire {@code verbs}: reliable connections of libibverbs, several per peer, on one or more
 * ports.
 */
@NullMarked
package org.ep4j.rdma.verbs;

import org.jspecify.annotations.NullMarked;
