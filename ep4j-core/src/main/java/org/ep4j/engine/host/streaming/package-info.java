/** Copies and sums that bypass the cache. */
@NullMarked
package org.ep4j.engine.host.streaming;

import org.jspecify.annotations.NullMarked;
