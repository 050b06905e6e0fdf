/** What the operations of a host buffer share: context, waits, abort notices, handles. */
@NullMarked
package org.ep4j.engine.host.context;

import org.jspecify.annotations.NullMarked;
