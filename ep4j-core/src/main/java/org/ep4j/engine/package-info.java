/**
 * Code that all engines share: their registration and choice, checks of arguments against a
 * configuration, agreement between ranks, nodes and rails, lifetimes of results, warm-up.
 */
@NullMarked
package org.ep4j.engine;

import org.jspecify.annotations.NullMarked;
