/** The exchange of chunks with ranks of other nodes, over a wire. */
@NullMarked
package org.ep4j.engine.host.internode;

import org.jspecify.annotations.NullMarked;
