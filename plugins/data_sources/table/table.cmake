# What data sources of tables are made of, too; it needs PkgConfig::sodium.
set(privgrad_table_sources cell_text.cpp columns.cpp dates.cpp declared_table.cpp split.cpp suggest.cpp table.cpp target_column.cpp)
list(TRANSFORM privgrad_table_sources PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
