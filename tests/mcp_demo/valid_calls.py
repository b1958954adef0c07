"""Valid arguments for each tool: the least it needs, and all that it takes."""

from typing import Any

CALLS: dict[str, list[dict[str, Any]]] = {
    "get_order": [{"order_id": "ORD-1028"}],
    "list_customer_orders": [
        {"customer_id": "CUST-001", "status": "delivered", "limit": 1},
        {"customer_id": "CUST-012", "status": None},
    ],
    "track_shipment": [{"order_id": "ORD-1001"}, {"order_id": "ORD-1032"}],
    "cancel_order": [{"order_id": "ORD-1032"}, {"order_id": "ORD-1031", "reason": "found it cheaper"}],
    "update_shipping_address": [
        {
            "order_id": "ORD-1030",
            "street": "Seeweg 14",
            "postal_code": "6020",
            "city": "Innsbruck",
            "country": "AT",
        }
    ],
    "get_sales_summary": [{}, {"date_from": "2026-08-14", "date_to": "2026-08-31", "category": "tents"}],
    "rank_products": [{}, {"metric": "units", "order": "worst", "limit": 50, "category": "kitchen"}],
    "get_inventory_report": [{}, {"category": "electronics", "below": 10, "limit": 1}],
    "find_similar_products": [
        {"product_id": "PRD-101", "max_price": 99.5, "in_stock_only": False, "limit": 10}
    ],
    "find_customer": [{"query": "keller"}, {"query": "nobody at all"}],
    "open_support_ticket": [
        {
            "customer_id": "CUST-002",
            "subject": "Late",
            "message": "Where is it?",
            "category": "delivery",
            "order_id": "ORD-1028",
            "priority": "high",
        }
    ],
    "add_ticket_comment": [{"ticket_id": "TCK-505", "message": "Soon.", "author": "support"}],
    "search_help_articles": [{"query": "xyzzy"}, {"query": "pay", "topic": "payment", "limit": 1}],
    "search_products": [
        {"query": "submarine"},
        {
            "query": "jacket",
            "category": "clothing",
            "activity": "winter",
            "max_price": 500,
            "min_rating": 4.5,
            "in_stock_only": True,
            "sort_by": "price_high",
            "limit": 1,
        },
    ],
    "get_product": [{"product_id": "PRD-104"}],
    "compare_products": [{"product_ids": ["PRD-104", "PRD-113", "PRD-121", "PRD-124"]}],
    "get_sales_trend": [{}, {"interval": "month", "category": "tents"}, {"chart": True}],
    "recommend_for_customer": [{"customer_id": "CUST-001", "max_price": 100}],
    "list_bought_together": [{"product_id": "PRD-113", "limit": 1}],
    "get_support_ticket": [{"ticket_id": "TCK-502"}],
    "list_product_reviews": [{"product_id": "PRD-113", "max_stars": 3, "limit": 1}],
}
