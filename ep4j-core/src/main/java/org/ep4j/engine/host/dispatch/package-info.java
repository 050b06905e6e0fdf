/** High-throughput dispatch of the host engine. */
@NullMarked
package org.ep4j.engine.host.dispatch;

import org.jspecify.annotations.NullMarked;
