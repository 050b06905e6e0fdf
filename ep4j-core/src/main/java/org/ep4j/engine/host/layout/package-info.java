/** Memory layouts of the host engine: the offsets of every shared region. */
@NullMarked
package org.ep4j.engine.host.layout;

import org.jspecify.annotations.NullMarked;
