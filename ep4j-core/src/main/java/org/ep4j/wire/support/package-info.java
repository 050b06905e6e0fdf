/** What wires have in common: checks of arguments, flow control, agreement at set-up. */
@NullMarked
package org.ep4j.wire.support;

import org.jspecify.annotations.NullMarked;
